"""TensorFlow 2.5 - 2.7: gradients are all-reduced before the verdict.

From 2.6 on ``tf.keras`` is the package ``keras``; in 2.5 a ``keras`` of the same build lies beside TensorFlow. The copy
in ``tensorflow.python.keras`` stays.
"""

from tfls_patch.patches import _gradient_tape
from tfls_patch.patches._core import CORE, KERAS

VERSIONS = ">=2.5,<2.8"

TARGETS = {
    **CORE,
    "tensorflow.python.training.experimental.loss_scaling_gradient_tape": [_gradient_tape.GRADIENT_TAPE],
    "tensorflow.python.keras.mixed_precision.loss_scale_optimizer": KERAS,
    "keras.mixed_precision.loss_scale_optimizer": KERAS,
}
