"""``tf.contrib.mixed_precision.ExponentialUpdateLossScaleManager`` (TF 1.14 - 1.15).

It counts bad steps too, and has a ratio of its own in each direction::

    any gradient non-finite:   bad += 1;  good = 0
        if bad >= decr_every:  good = bad = 0;  scale = bounded(scale * decr_ratio)
    all gradients finite:      good += 1
        if good >= incr_every: good = bad = 0;  scale = bounded(scale * incr_ratio)
"""

import functools

from tfls_patch import _skips, _traces, scaling
from tfls_patch.patches._declare import Target


def _replace_update(original, module):
    @functools.wraps(original)
    def update_loss_scale(self, finite_grads):
        import tensorflow as tf

        lib, tf1 = tf.compat.v2, tf.compat.v1
        rule = _traces.for_update(self, finite_grads)

        def change_to(new_scale):
            return tf.group(tf1.assign(self._loss_scale, new_scale), self._reset_stats())

        def count_good():
            return tf1.assign_add(self._num_good_steps, 1).op

        def count_bad():
            return tf.group(tf1.assign_add(self._num_bad_steps, 1), tf1.assign(self._num_good_steps, 0))

        def take_step():
            due = scaling.growth_is_due(lib, self._num_good_steps, self._incr_every_n_steps, self._loss_scale, rule)
            return tf1.cond(
                due, lambda: change_to(scaling.bounded(lib, self._loss_scale * self._incr_ratio, rule)), count_good
            )

        def skip_step():
            due = scaling.is_last_of(lib, self._num_bad_steps, self._decr_every_n_nan_or_inf)
            scale = tf.identity(self._loss_scale)
            new_scale = lib.where(due, scaling.bounded(lib, scale * self._decr_ratio, rule), scale)
            recorded = _skips.record(self, scale, self._num_good_steps, new_scale, rule)
            with tf.control_dependencies(recorded.operations):
                changed = tf1.cond(due, lambda: change_to(new_scale), count_bad)
            with tf.control_dependencies([changed]):
                return tf.group(changed, recorded.follow_policy())

        return tf1.cond(finite_grads, take_step, skip_step)

    return update_loss_scale


EXPONENTIAL_MANAGER = Target(
    path="ExponentialUpdateLossScaleManager.update_loss_scale",
    parameters=("self", "finite_grads"),
    uses=(
        "_loss_scale",
        "_num_good_steps",
        "_num_bad_steps",
        "_incr_every_n_steps",
        "_incr_ratio",
        "_decr_every_n_nan_or_inf",
        "_decr_ratio",
        "_reset_stats",
    ),
    replace=_replace_update,
)
