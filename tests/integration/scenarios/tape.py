"""``LossScaleGradientTape`` (TF 2.1 - 2.7) retries down to the floor; with a floor of 1 it is stock (2.2 on)."""

import numpy as np

import surfaces
from surfaces import VERSION, tf

from tensorflow.python.training.experimental.loss_scaling_gradient_tape import LossScaleGradientTape

surfaces.start("eager")


def gradient_of(loss_scale, w, loss_function, in_function):
    def compute():
        with LossScaleGradientTape(loss_scale) as tape:
            loss = loss_function(w)
        return tape.gradient(loss, [w, unused])

    unused = tf.Variable(3.0)
    gradient, none = (tf.function(compute) if in_function else compute)()
    assert none is None
    return float(gradient.numpy()), float(loss_scale().numpy())


def overflowing(w):
    return 1.5e5 * tf.square(tf.cast(tf.cast(w, tf.float16), tf.float32) - 1.0)


def trial(in_function):
    """Returns what a tape makes of an overflow, of a hopeless NaN, and of a healthy step at the floor."""
    loss_scale = surfaces.loss_scales().DynamicLossScale()
    w = tf.Variable(0.0)
    results = [
        gradient_of(loss_scale, w, overflowing, in_function),
        gradient_of(loss_scale, w, lambda w: w * float("nan"), in_function),
        gradient_of(loss_scale, w, lambda w: w * 3.0, in_function),
    ]
    return np.array(results)


if VERSION >= (2, 2):  # stock of 2.1 does not work with a gradient that is None
    stock = [trial(False), trial(True)]

import tfls_patch

if VERSION >= (2, 2):
    tfls_patch.apply(min_scale=1)
    for expected, found in zip(stock, [trial(False), trial(True)]):
        assert np.array_equal(expected, found) or np.allclose(expected, found, rtol=0, atol=0, equal_nan=True), (
            expected,
            found,
        )
    tfls_patch.revert()

tfls_patch.apply(min_scale=2.0**-10)
for in_function in (False, True):
    (overflow, scale), (hopeless, floor), (healthy, kept) = trial(in_function)
    assert scale == 0.125 and abs(overflow / -3e5 - 1) < 1e-3, (overflow, scale)
    assert np.isnan(hopeless) and floor == 2.0**-10, (hopeless, floor)
    assert healthy == 3.0 and kept == 2.0**-10, (healthy, kept)

fixed = surfaces.loss_scales().FixedLossScale(0.5)
assert gradient_of(fixed, tf.Variable(1.0), lambda w: w * 3.0, True) == (3.0, 0.5)
print("OK")
