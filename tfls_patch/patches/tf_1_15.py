"""TensorFlow 1.15: as 1.14, but the Keras optimizer has scaling methods."""

from tfls_patch.patches import _scaling_methods, tf_1_14

VERSIONS = ">=1.15,<2.0"

TARGETS = {
    **tf_1_14.TARGETS,
    "tensorflow.python.keras.mixed_precision.experimental.loss_scale_optimizer": (
        _scaling_methods.EXPERIMENTAL_OPTIMIZER
    ),
}
