"""TensorFlow 2.16 - 2.22: ``tf.compat.v1`` and the vendored Keras 2.

``tf.keras`` itself is Keras 3 (see `keras_3`), or with ``TF_USE_LEGACY_KERAS=1`` the package tf_keras (see
`tf_keras_2_15_to_2_22`); both have versions of their own.
"""

from tfls_patch.patches._core import CORE, KERAS

VERSIONS = ">=2.16,<2.23"

TARGETS = {
    **CORE,
    "tensorflow.python.keras.mixed_precision.loss_scale_optimizer": KERAS,
}
