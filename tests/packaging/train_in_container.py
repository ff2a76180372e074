"""A training script that has never heard of tfls_patch. Its float16 gradients overflow at a loss scale of 1."""

import json

import numpy as np
import tensorflow as tf


def loss(label, prediction):
    """The float16 gradient is 1.5e6 times the scale: it fits float16 at 2**-5 and below."""
    return 1.5e6 * tf.reduce_mean(tf.cast(prediction, tf.float32) - tf.cast(label, tf.float32))


def scale():
    found = getattr(model.optimizer, "dynamic_scale", None)  # Keras 3
    return float(model.optimizer.loss_scale if found is None else found)


tf.keras.mixed_precision.set_global_policy("mixed_float16")
model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
model.compile(tf.keras.optimizers.SGD(1e-9), loss)
model.fit(np.ones([2, 2]), np.ones([2, 1]), batch_size=2, epochs=40, verbose=0)
trained = {"scale": scale(), "weights": model.get_weights()[0].ravel().tolist()}
model.fit(np.full([2, 2], np.nan), np.ones([2, 1]), batch_size=2, epochs=60, verbose=0)
print(json.dumps({"tensorflow": tf.__version__, "trained": trained, "floor": scale()}))
