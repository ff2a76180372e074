"""TensorFlow 1.14.

The Keras optimizer and ``MixedPrecisionLossScaleOptimizer`` hold a ``DynamicLossScale``; ``tf.contrib`` has managers of
its own, loaded when it is first used. The Keras optimizer has no scaling methods yet, its module has two functions.
"""

from tfls_patch.patches import _construction, _contrib_manager, _fixed_loss_scale, _scaling_methods
from tfls_patch.patches._core import CORE

VERSIONS = ">=1.14,<1.15"

TARGETS = {
    **CORE,
    "tensorflow.python.keras.mixed_precision.experimental.loss_scale_optimizer": (
        _scaling_methods.EXPERIMENTAL_FUNCTIONS
    ),
    "tensorflow.contrib.mixed_precision.python.loss_scale_manager": [
        _contrib_manager.EXPONENTIAL_MANAGER,
        _construction.EXPONENTIAL_MANAGER,
        _fixed_loss_scale.FIXED_MANAGER,
    ],
    "tensorflow.contrib.mixed_precision.python.loss_scale_optimizer": _scaling_methods.CONTRIB_OPTIMIZER,
}
