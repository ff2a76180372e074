"""float16 losses and float16 variables: every scale from 2**15 to 2**-24 gives the exact product and quotient."""

import numpy as np

import surfaces
from surfaces import KERAS_3, VERSION, tf

import tfls_patch

surfaces.start("eager")
tfls_patch.apply(min_scale=2.0**-24)


def slices(values):
    return tf.IndexedSlices(tf.constant(values, tf.float16), tf.constant([0, 2]), tf.constant([4]))


def check_methods(name, make):
    """`get_scaled_loss` and `get_unscaled_gradients`, over the whole range."""
    surface = make(2.0**15, 2000)
    optimizer = surface.optimizer
    for exponent in range(-24, 16):
        scale = 2.0**exponent
        surface.set_scale(scale)
        loss = tf.constant(1.0 if exponent < 15 else 0.75, tf.float16)
        scaled = optimizer.get_scaled_loss(loss)
        assert scaled.dtype == tf.float16 and float(scaled) == float(loss) * scale, (name, exponent, scaled)
        assert float(optimizer.get_scaled_loss(lambda: loss)()) == float(loss) * scale
        gradient = tf.constant([scale, 0.5 * scale if exponent > -24 else 0.0], tf.float16)
        unscaled, none, wide = optimizer.get_unscaled_gradients([gradient, None, tf.constant([scale, 3 * scale])])
        assert unscaled.dtype == tf.float16 and none is None and wide.dtype == tf.float32, (name, unscaled, none, wide)
        assert list(unscaled.numpy()) == [1.0, 0.5 if exponent > -24 else 0.0], (name, exponent, unscaled)
        assert list(wide.numpy()) == [1.0, 3.0]
        (sparse,) = optimizer.get_unscaled_gradients([slices([scale, scale])])
        if VERSION >= (2, 3):  # before that stock makes them dense
            assert isinstance(sparse, tf.IndexedSlices) and list(sparse.values.numpy()) == [1.0, 1.0], (name, sparse)


def check_training(name, make):
    """A float16 variable under a float16 loss goes on training at the smallest scale; no value becomes 0 or inf."""
    import keras

    for exponent in (15, 0, -14, -17, -24):
        surface = make(2.0**exponent, 2000)
        w = keras.Variable([1.0, 2.0], dtype="float16") if KERAS_3 else tf.Variable([1.0, 2.0], dtype=tf.float16)
        inner = (keras if KERAS_3 else tf.keras).optimizers.SGD(0.25)
        optimizer = type(surface.optimizer)(inner, initial_scale=2.0**exponent)
        optimizer.build([w])
        value = w.value if KERAS_3 else w
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(value)
            scaled = optimizer.scale_loss(loss)
        optimizer.apply([tape.gradient(scaled, value)], [w])
        assert list(np.array(w)) == [0.75, 1.75], (name, exponent, np.array(w))


def check_quotient_overflow():
    """Keras 3: a finite gradient whose quotient is not must skip the step and halve the scale."""
    import keras

    w = keras.Variable([1.0], dtype="float16")
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.25), initial_scale=2.0**-10)
    optimizer.build([w])
    optimizer.apply([tf.constant([1000.0], tf.float16)], [w])
    assert list(np.array(w)) == [1.0] and float(optimizer.dynamic_scale.numpy()) == 2.0**-11, np.array(w)
    optimizer.apply([tf.constant([2.0**-11], tf.float16)], [w])
    assert list(np.array(w)) == [0.75]


def check_clipping():
    """Keras 3: an inner optimizer that clips gets the quotients in float32, where their squares fit."""
    import keras

    for how in ({"global_clipnorm": 1.0}, {"clipnorm": 1.0}, {"clipvalue": 0.01}):
        w = keras.Variable(np.zeros(10000), dtype="float16")
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0, **how), initial_scale=0.5)
        optimizer.build([w])
        optimizer.apply([tf.constant(np.full(10000, 6e4), tf.float16)], [w])  # 1.2e5 each, beyond float16
        assert np.allclose(np.array(w), -0.01, rtol=2e-3), (how, np.array(w))
        assert float(optimizer.dynamic_scale.numpy()) == 0.5


for name, make in sorted(surfaces.surfaces("eager").items()):
    if not name.endswith("eager") or "DynamicLossScale" in name:
        continue
    if "keras 3" in name:
        check_training(name, make)
        check_quotient_overflow()
        check_clipping()
    elif VERSION >= (1, 15):
        check_methods(name, make)
print("OK")
