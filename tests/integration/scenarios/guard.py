"""Keras 3 under siege: nothing ends with a scale of 0, inf or NaN, or with weights made NaN by the scaler.

Usage ``guard.py GROWTHS``: how many growths in a row to simulate.
"""

import sys

import numpy as np

import surfaces
from surfaces import tf

import keras
import tfls_patch

surfaces.start("eager")
GROWTHS = int(sys.argv[1])


def check_a_thousand_bad_batches_in_fit():
    """1000 NaN batches through ``model.fit``; then good ones are learnt from."""
    keras.mixed_precision.set_global_policy("mixed_float16")
    tfls_patch.revert()
    tfls_patch.apply()
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    x, y = np.ones((1200, 2), "float32"), np.ones((1200, 1), "float32")
    x[:1000] = np.nan
    model.fit(x, y, batch_size=1, epochs=1, shuffle=False, verbose=0)
    assert float(model.optimizer.dynamic_scale.numpy()) == 2.0**-14
    assert tfls_patch.stats(model.optimizer).skipped == 1000, tfls_patch.stats(model.optimizer)
    assert all(np.isfinite(weight).all() for weight in model.get_weights())
    assert abs(float(model.predict(x[-1:], verbose=0)[0, 0]) - 1) < 0.01
    keras.mixed_precision.set_global_policy("float32")


def check_growths():
    """Growth at every step: the scale rises to the ceiling and stays there; one overflow lowers it."""
    tfls_patch.revert()
    tfls_patch.apply()
    w = keras.Variable(1.0)
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.5), dynamic_growth_steps=1)
    optimizer.build([w])

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)])
    def grow(count):
        def body(index):
            optimizer._stateful_handle_finite_grads([tf.zeros([])], [w])
            return index + 1

        return tf.while_loop(lambda index: index < count, body, [0])

    grow(tf.constant(100))
    assert float(optimizer.dynamic_scale.numpy()) == 2.0**115
    grow(tf.constant(GROWTHS - 100))
    assert float(optimizer.dynamic_scale.numpy()) == 2.0**126 and float(w.numpy()) == 1.0
    optimizer.apply([tf.constant(2.0**126)], [w])  # the reciprocal is not flushed to 0
    assert float(w.numpy()) == 0.5
    optimizer.apply([tf.constant(np.inf)], [w])
    assert float(optimizer.dynamic_scale.numpy()) == 2.0**125 and float(w.numpy()) == 0.5


def check_restored_scales():
    """Bad scales from a file: good and bad batches in every order leave finite weights and a scale within bounds."""
    tfls_patch.revert()
    tfls_patch.apply(min_scale=0.25, max_scale=64.0)
    for restored in (0.0, np.inf, -np.inf, np.nan, -8.0, 1e-40, 3e38):
        for script in ([1.0, np.inf, 1.0], [np.inf, 1.0], [0.0, np.nan, 1.0], [np.nan] * 3 + [1.0]):
            w = keras.Variable(1.0)
            optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(2.0**-10))
            optimizer.build([w])
            optimizer.dynamic_scale.assign(restored)
            for m in script:
                scale = optimizer.dynamic_scale.value
                optimizer.apply([tf.constant(m, tf.float32) * scale], [w])
            scale = float(optimizer.dynamic_scale.numpy())
            assert 0.25 <= scale <= 64.0 and np.isfinite(w.numpy()), (restored, script, scale, w.numpy())


def check_gradients_without_their_variables():
    """The optimizer knows its variables from `build`; that they are not given again hides no gradient."""
    tfls_patch.revert()
    tfls_patch.apply()
    w = keras.Variable(1.0)
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.5), initial_scale=4.0)
    optimizer.build([w])
    optimizer.apply([tf.constant(np.inf)])
    assert (float(optimizer.dynamic_scale.numpy()), float(w.numpy())) == (2.0, 1.0)
    optimizer.apply([tf.constant(2.0)])
    assert (float(optimizer.dynamic_scale.numpy()), float(w.numpy())) == (2.0, 0.5)
    values = [variable.value for variable in optimizer.variables]
    position = [variable is optimizer.dynamic_scale for variable in optimizer.variables].index(True)
    weights, values = optimizer.stateless_apply(values, [tf.constant(np.inf)], [w.value])
    assert (float(values[position]), float(weights[0])) == (1.0, 0.5)


def check_rows_that_are_looked_up_twice():
    """A row of an embedding that has a finite gradient beside its infinite one; stock sees the last of them only."""
    tfls_patch.revert()
    tfls_patch.apply(min_scale=0.25)
    for dtype in ("float32", "float16"):
        w = keras.Variable([[1.0], [1.0]], dtype=dtype)
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.25), initial_scale=4.0)
        optimizer.build([w])
        for bad in (np.inf, np.nan, -np.inf):
            values = tf.cast(tf.constant([[4.0], [bad], [4.0]]), dtype)
            optimizer.apply([tf.IndexedSlices(values, tf.constant([0, 1, 1]), tf.constant([2, 1]))], [w])
        assert w.numpy().tolist() == [[1.0], [1.0]] and float(optimizer.dynamic_scale.numpy()) == 0.5, w


check_a_thousand_bad_batches_in_fit()
check_gradients_without_their_variables()
check_restored_scales()
check_rows_that_are_looked_up_twice()
check_growths()
print("OK")
