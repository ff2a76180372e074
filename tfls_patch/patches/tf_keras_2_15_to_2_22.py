"""The package tf_keras, Keras 2 for TensorFlow 2.16 on: what ``tf.keras`` is with ``TF_USE_LEGACY_KERAS=1``."""

from tfls_patch.patches._core import KERAS_WITH_V3

VERSIONS = ">=2.15,<2.23"

TARGETS = {"tf_keras.src.mixed_precision.loss_scale_optimizer": KERAS_WITH_V3}
