"""The `update` of TensorFlow's two dynamic loss scales, bound to the rule in `tfls_patch.scaling`.

``DynamicLossScale`` (TF 1.14 on) and ``_DynamicLossScaleState`` of the Keras optimizers (TF 2.4 on) keep the same
state under other names and differ in how replicas agree; nothing else.
"""

import collections
import functools

from tfls_patch import _diagnosis, _skips, _traces, scaling
from tfls_patch._autograph import unconverted
from tfls_patch.patches._declare import Target

_Names = collections.namedtuple("_Names", ["scale", "good", "growth_interval", "multiplier"])

_OF_DYNAMIC_LOSS_SCALE = _Names("_current_loss_scale", "_num_good_steps", "_increment_period", "_multiplier")
_OF_KERAS_STATE = _Names("current_loss_scale", "counter", "growth_steps", "multiplier")


def _vote_by_sum(is_all_finite, gradients):
    """True if the gradients are finite on every replica: each replica votes, the votes are summed."""
    import tensorflow as tf

    if not tf.distribute.has_strategy():
        return is_all_finite(gradients)
    strategy = tf.distribute.get_strategy()
    # A strategy cannot reduce booleans.
    vote = unconverted(lambda own: tf.cast(is_all_finite(own), tf.float32))
    votes = strategy.extended.call_for_each_replica(vote, args=(gradients,))
    return tf.equal(strategy.reduce(tf.distribute.ReduceOp.SUM, votes, axis=None), strategy.num_replicas_in_sync)


def _vote_of_first(is_all_finite, gradients):
    """True if the first replica's gradients are finite: they were all-reduced, so it has what every replica has."""
    import tensorflow as tf

    if not (tf.distribute.has_strategy() and tf.distribute.in_cross_replica_context()):
        return is_all_finite(gradients)
    strategy = tf.distribute.get_strategy()
    votes = strategy.extended.call_for_each_replica(is_all_finite, args=(gradients,))
    return strategy.experimental_local_results(votes)[0]


def _replace_update(names, vote, original, module):
    @functools.wraps(original)
    def update(self, grads):
        import tensorflow as tf

        lib, tf1 = tf.compat.v2, tf.compat.v1
        scale, good = getattr(self, names.scale), getattr(self, names.good)
        growth_interval, multiplier = getattr(self, names.growth_interval), getattr(self, names.multiplier)
        grads = tf.nest.flatten(grads)
        with tf.control_dependencies(_diagnosis.see_gradients(self, scale, grads)):
            finite = vote(module._is_all_finite, grads)
        rule = _traces.for_update(self, finite)

        def change_to(new_scale):
            return tf.group(scale.assign(new_scale), good.assign(0))

        def count():
            return _op(tf, good.assign_add(1))

        def grow():
            return change_to(scaling.after_growth(lib, scale, multiplier, rule))

        def take_step():
            return tf1.cond(scaling.growth_is_due(lib, good, growth_interval, scale, rule), grow, count)

        def skip_step():
            before = tf.convert_to_tensor(scale)
            after = scaling.after_overflow(lib, before, multiplier, rule)
            recorded = _skips.record(self, before, good, after, rule)
            with tf.control_dependencies(recorded.operations):
                changed = change_to(after)
            with tf.control_dependencies([changed]):
                return tf.group(changed, recorded.follow_policy())

        return tf1.cond(finite, take_step, skip_step), finite

    return update


def _op(tf, assignment):
    """The operation behind an assignment in a graph, where both branches of a `cond` must give the same kind."""
    return assignment if tf.executing_eagerly() else assignment.op


def _update_target(path, names, vote, agreement):
    return Target(
        path=path,
        parameters=("self", "grads"),
        uses=names + ("_is_all_finite", agreement),
        replace=functools.partial(_replace_update, names, vote),
    )


#: Each replica votes (all TensorFlow versions).
DYNAMIC_LOSS_SCALE = _update_target("DynamicLossScale.update", _OF_DYNAMIC_LOSS_SCALE, _vote_by_sum, "reduce")

#: Each replica votes (TF 2.4).
KERAS_STATE_VOTING = _update_target("_DynamicLossScaleState.update", _OF_KERAS_STATE, _vote_by_sum, "reduce")

#: Gradients are all-reduced before (TF 2.5 on, tf_keras).
KERAS_STATE = _update_target(
    "_DynamicLossScaleState.update", _OF_KERAS_STATE, _vote_of_first, "experimental_local_results"
)
