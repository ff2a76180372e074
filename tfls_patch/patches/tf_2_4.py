"""TensorFlow 2.4: ``tf.keras.mixed_precision.LossScaleOptimizer`` has a ``_DynamicLossScaleState`` of its own.

Its replicas vote on whether all gradients are finite.
"""

from tfls_patch.patches import _construction, _gradient_tape, _loss_scale_update, _scaling_methods
from tfls_patch.patches._core import CORE

VERSIONS = ">=2.4,<2.5"

TARGETS = {
    **CORE,
    "tensorflow.python.training.experimental.loss_scaling_gradient_tape": [_gradient_tape.GRADIENT_TAPE],
    "tensorflow.python.keras.mixed_precision.loss_scale_optimizer": (
        [_loss_scale_update.KERAS_STATE_VOTING, _construction.KERAS_STATE, _construction.KERAS_OPTIMIZER]
        + _scaling_methods.OPTIMIZER
    ),
}
