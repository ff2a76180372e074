"""TensorFlow 2.1 - 2.3: as 2.0, and ``LossScaleGradientTape``."""

from tfls_patch.patches import _gradient_tape, tf_2_0

VERSIONS = ">=2.1,<2.4"

TARGETS = {
    **tf_2_0.TARGETS,
    "tensorflow.python.training.experimental.loss_scaling_gradient_tape": [_gradient_tape.GRADIENT_TAPE],
}
