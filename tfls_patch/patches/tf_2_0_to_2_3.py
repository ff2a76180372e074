"""TensorFlow 2.0 - 2.3: ``tf.keras.mixed_precision.experimental.LossScaleOptimizer`` holds a ``DynamicLossScale``.

``LossScaleGradientTape`` comes with 2.1.
"""

from tfls_patch.patches import _gradient_tape, _scaling_methods
from tfls_patch.patches._core import CORE

VERSIONS = ">=2.0,<2.4"

TARGETS = {
    **CORE,
    "tensorflow.python.training.experimental.loss_scaling_gradient_tape": [_gradient_tape.GRADIENT_TAPE],
    "tensorflow.python.keras.mixed_precision.experimental.loss_scale_optimizer": (
        _scaling_methods.EXPERIMENTAL_OPTIMIZER
    ),
}
