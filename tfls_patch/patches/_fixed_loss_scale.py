"""Fixed loss scales below 1, which stock refuses at construction: ``FixedLossScale`` and contrib's manager."""

import functools
import numbers

from tfls_patch._settings import SMALLEST_SCALE
from tfls_patch.patches import _construction
from tfls_patch.patches._declare import Target


def _is_below_one(value):
    """Whether `value` is a scale that only the floor forbids. All else is for stock to accept or to refuse."""
    return isinstance(value, numbers.Real) and SMALLEST_SCALE <= value < 1


def _replace_loss_scale(original, module):
    @functools.wraps(original)
    def __init__(self, loss_scale_value):
        if not _is_below_one(loss_scale_value):
            original(self, loss_scale_value)
            return _construction.warn_of_fixed("loss_scale_value", loss_scale_value)
        original(self, 1.0)
        self._loss_scale_value = float(loss_scale_value)

    return __init__


def _replace_manager(original, module):
    @functools.wraps(original)
    def __init__(self, loss_scale):
        if not _is_below_one(loss_scale):
            original(self, loss_scale)
            return _construction.warn_of_fixed("loss_scale", loss_scale)
        import tensorflow as tf

        # Not through stock's constructor: it would leave an unused constant in the graph.
        self._loss_scale = tf.convert_to_tensor(loss_scale, dtype=tf.float32)

    return __init__


FIXED_LOSS_SCALE = Target(
    path="FixedLossScale.__init__",
    parameters=("self", "loss_scale_value"),
    uses=("_loss_scale_value",),
    replace=_replace_loss_scale,
)

FIXED_MANAGER = Target(
    path="FixedLossScaleManager.__init__",
    parameters=("self", "loss_scale"),
    uses=("_loss_scale",),
    replace=_replace_manager,
)
