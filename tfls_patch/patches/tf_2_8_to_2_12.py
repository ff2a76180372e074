"""TensorFlow 2.8 - 2.12: Keras has a second class, ``LossScaleOptimizerV3``, for its new optimizers.

From 2.9 on the public name ``tf.keras.mixed_precision.LossScaleOptimizer`` is a factory that picks one of the two.
"""

from tfls_patch.patches._core import CORE, KERAS, KERAS_WITH_V3

VERSIONS = ">=2.8,<2.13"

TARGETS = {
    **CORE,
    "tensorflow.python.keras.mixed_precision.loss_scale_optimizer": KERAS,
    "keras.mixed_precision.loss_scale_optimizer": KERAS_WITH_V3,
}
