"""Keras 3.0 - 3.16, on the TensorFlow, JAX and torch backends: ``tf.keras`` of TensorFlow 2.16 on."""

from tfls_patch.patches import _construction
from tfls_patch.patches._keras_3_optimizer import KERAS_3_OPTIMIZER

VERSIONS = ">=3.0,<3.17"

TARGETS = {"keras.src.optimizers.loss_scale_optimizer": KERAS_3_OPTIMIZER + [_construction.KERAS_3_OPTIMIZER]}
