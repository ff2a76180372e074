"""The at-floor policy: what happens when even the smallest loss scale does not help.

``skip`` says nothing, like TensorFlow. ``warn`` says so, and ``raise`` gives up, after `patience` non-finite steps in a
row at the floor. A NaN in the forward pass, for example, is in the gradients at every scale.
"""

import sys

from tfls_patch import _settings, _warn, _xla
from tfls_patch._settings import RAISE, SKIP, WARN
from tfls_patch.errors import LossScaleFloorError

#: How the message begins.
OPENING = "The loss scale is at its floor"

_is_told = set()


def message(rule, count=None):
    """What has happened, what it means, and what to do."""
    text = (
        OPENING + ", %.6g, and there a gradient was inf or NaN in %d steps in a row. All of these "
        "were skipped: nothing is being learnt, and no loss scale will help. Look for a NaN or inf in the forward pass "
        "(then the loss itself is not finite), for an operation that must run in float32 (softmax, norms, exp, sums "
        "over many elements), for accumulated gradients that were never cleared, and for a learning rate that has "
        "diverged. `python -m tfls_patch diagnose train.py` says which it is" % (rule.min_scale, count or rule.patience)
    )
    text += (
        ". Or the floor is too high: TensorFlow's own is 1, this is lower by default." if rule.min_scale >= 1 else "."
    )
    if _settings.has_other_workers():  # an overflow of one worker is one of all
        text += " Or another worker is not patched, or has a higher floor: print tfls_patch.status() in each."
    return text


def react_now(count, rule):
    """Follows the policy at once, outside of a graph; `count` is how many steps in a row were skipped at the floor."""
    if rule.at_floor == RAISE and count >= rule.patience:
        raise LossScaleFloorError(message(rule, count), rule.min_scale, int(count))
    if rule.at_floor == WARN and count == rule.patience:  # once for each time that it gets stuck
        _warn.at_user_line(message(rule))


def react(count, rule):
    """Builds what follows the policy, for a `count` that is a tensor; returns operations. In eager mode it is done."""
    import tensorflow as tf

    if rule.at_floor == SKIP:
        return []
    if tf.executing_eagerly():
        react_now(float(count), rule)
        return []
    if _xla.is_compiling():
        return []
    if rule.at_floor == RAISE:
        return [tf.compat.v1.Assert(tf.less(count, float(rule.patience)), [message(rule)])]

    def say():
        with tf.control_dependencies([tf.print("tfls_patch: " + message(rule), output_stream=sys.stderr)]):
            return tf.no_op()

    return [tf.compat.v1.cond(tf.equal(count, float(rule.patience)), say, tf.no_op)]


def tell_what_xla_hides(rule):
    """Warns, once, that a step compiled by XLA can neither print nor raise."""
    if rule.at_floor == SKIP or rule.at_floor in _is_told:
        return
    _is_told.add(rule.at_floor)
    _warn.at_user_line(
        "at_floor=%r has no effect in a step that XLA compiles (jit_compile=True): nothing can be printed or raised "
        "there. Look at tfls_patch.stats(optimizer).skipped_in_a_row between the steps or after each epoch, or compile "
        "without XLA" % rule.at_floor
    )
