"""TensorFlow 2.0: ``tf.keras.mixed_precision.experimental.LossScaleOptimizer`` holds a ``DynamicLossScale``."""

from tfls_patch.patches import _scaling_methods
from tfls_patch.patches._core import CORE

VERSIONS = ">=2.0,<2.1"

TARGETS = {
    **CORE,
    "tensorflow.python.keras.mixed_precision.experimental.loss_scale_optimizer": (
        _scaling_methods.EXPERIMENTAL_OPTIMIZER
    ),
}
