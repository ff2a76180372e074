"""TensorFlow 2.13 - 2.15: Keras's modules moved to ``keras.src``."""

from tfls_patch.patches._core import CORE, KERAS, KERAS_WITH_V3

VERSIONS = ">=2.13,<2.16"

TARGETS = {
    **CORE,
    "tensorflow.python.keras.mixed_precision.loss_scale_optimizer": KERAS,
    "keras.src.mixed_precision.loss_scale_optimizer": KERAS_WITH_V3,
}
