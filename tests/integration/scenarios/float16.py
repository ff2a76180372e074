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
        generated = optimizer.get_unscaled_gradients(each for each in [gradient, wide])  # can be gone through once
        assert [each.dtype for each in generated] == [tf.float16, tf.float32], (name, generated)
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


def halves():
    """float16 numbers of every magnitude, subnormal ones too."""
    random = np.random.RandomState(1)
    values = random.randint(0, 2**16, 20000).astype(np.uint16).view(np.float16)
    return values[np.isfinite(values)]


def rounded_once(exact):
    with np.errstate(over="ignore"):
        return exact.astype(np.float16)


def same(one, other):
    return one.dtype == other.dtype and np.array_equal(one.astype(np.float64), other.astype(np.float64))


def check_rounding(name, make):
    """Products and quotients for scales that are no powers of two are rounded once, not twice."""
    surface = make(2.0**15, 2000)
    values, optimizer = halves(), surface.optimizer
    for scale in (1e-4, 0.3, 3.0):
        surface.set_scale(scale)
        factor = np.float64(np.float32(scale))
        product = optimizer.get_scaled_loss(tf.constant(values)).numpy()
        assert same(product, rounded_once(values.astype(np.float64) * factor)), (name, scale)
        (quotient,) = optimizer.get_unscaled_gradients([tf.constant(values)])
        assert same(quotient.numpy(), rounded_once(values.astype(np.float64) / factor)), (name, scale)


def check_other_types(name, make):
    """float32 and bfloat16 are what stock makes of them, to the bit."""
    surface = make(2.0**15, 2000)
    random = np.random.RandomState(2)
    values = np.exp(random.uniform(-60, 60, 1000)).astype(np.float32)
    results = []
    for is_patched in (True, False):
        (tfls_patch.apply if is_patched else tfls_patch.revert)()
        for scale in (1e-4, 2.0**-20, 3.0):
            surface.set_scale(scale)
            for dtype in (tf.float32, tf.bfloat16) if VERSION >= (2, 3) else (tf.float32,):  # stock refuses it before
                operand = tf.cast(tf.constant(values), dtype)
                pair = [surface.optimizer.get_scaled_loss(operand)]
                pair += surface.optimizer.get_unscaled_gradients([operand])
                assert all(each.dtype == dtype for each in pair)
                results.append([tf.cast(each, tf.float32).numpy() for each in pair])
    half = len(results) // 2
    assert np.array_equal(results[:half], results[half:]), name
    tfls_patch.apply(min_scale=2.0**-24)


def check_rounding_keras_3():
    """The same through `apply`: gradient descent at a rate of 1 from 0 gives the negative quotient."""
    import keras

    values = halves()
    for scale in (1e-4, 0.3, 3.0):
        with np.errstate(over="ignore"):
            expected = rounded_once(values.astype(np.float64) / np.float64(np.float32(scale)))
        fits = np.isfinite(expected) & (np.abs(values / np.float64(np.float32(scale))) < 65519)
        w = keras.Variable(np.zeros(fits.sum()), dtype="float16")
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=scale)
        optimizer.build([w])
        optimizer.apply([tf.constant(values[fits])], [w])
        assert same(np.array(w), -expected[fits] + np.float16(0)), scale


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


def check_contrib():
    """contrib's optimizer trains a float16 variable under a float16 loss at every scale."""
    contrib = tf.contrib.mixed_precision
    for exponent in (15, 0, -14, -17, -24):
        with tf.Graph().as_default():
            w = tf.compat.v1.get_variable("w", initializer=np.array([1.0, 2.0], np.float16), use_resource=True)
            plain = tf.compat.v1.get_variable("plain", initializer=1.0, use_resource=True)
            manager = contrib.FixedLossScaleManager(2.0**exponent)
            optimizer = contrib.LossScaleOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.25), manager)
            assert optimizer.compute_gradients(lambda: plain * 2.0, [plain])[0][0].dtype == tf.float32
            train = optimizer.minimize(tf.reduce_sum(w) * tf.constant(0.5, tf.float16), var_list=[w])
            with tf.compat.v1.Session() as session:
                session.run(tf.compat.v1.global_variables_initializer())
                session.run(train)
                # The gradient is half the scale; float16 holds 2**-24, but no half of it.
                expected = [0.875, 1.875] if exponent > -24 else [1.0, 2.0]
                assert list(session.run(w)) == expected, (exponent, session.run(w))


for name, make in sorted(surfaces.surfaces("eager").items()):
    if not name.endswith("eager") or "DynamicLossScale" in name:
        continue
    if "keras 3" in name:
        check_training(name, make)
        check_rounding_keras_3()
        check_quotient_overflow()
        check_clipping()
    elif VERSION >= (1, 15):
        check_methods(name, make)
        check_rounding(name, make)
        check_other_types(name, make)
if VERSION < (2, 0):
    check_contrib()
print("OK")
