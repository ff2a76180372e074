"""Keras 3 on another backend: usage ``keras_3_backend.py jax|torch``. The rule, bad scales, and ``model.fit``."""

import os
import sys
import warnings

os.environ["KERAS_BACKEND"] = backend = sys.argv[1]
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np

import tfls_patch

assert tfls_patch.apply(min_scale=0.25, max_scale=64.0).enabled
import keras

assert keras.backend.backend() == backend and len(tfls_patch.status().patched) >= 8, tfls_patch.status()
INF, NAN = float("inf"), float("nan")
RATE = 2.0**-10
SCRIPT = [INF] * 8 + [1.0] * 30 + [NAN, 1.0, 1.0]


def expected(script, scale=16.0, interval=3):
    good, weight, states = 0, 1.0, []
    for m in script:
        if np.isfinite(m):
            weight, good = weight - RATE * m, good + 1
            if good >= interval:
                good, scale = 0, min(scale * 2, 64.0)
        else:
            good, scale = 0, max(scale / 2, 0.25)
        states.append((scale, good, weight))
    return states


def make(initial=16.0):
    w = keras.Variable(1.0)
    optimizer = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(RATE), initial_scale=initial, dynamic_growth_steps=3
    )
    optimizer.build([w])
    return w, optimizer


def number(value):
    return float(keras.ops.convert_to_numpy(value))


def stateful(script, initial=16.0):
    w, optimizer = make(initial)
    states = []
    for m in script:
        gradient = keras.ops.convert_to_tensor(m, "float32") * optimizer.dynamic_scale
        optimizer.apply([gradient], [w])
        states.append((number(optimizer.dynamic_scale), int(number(optimizer.step_counter)), number(w)))
    return states


def stateless(script, initial=16.0):
    import jax

    w, optimizer = make(initial)
    place = [v is optimizer.dynamic_scale for v in optimizer.variables].index(True)
    count = [v is optimizer.step_counter for v in optimizer.variables].index(True)

    @jax.jit
    def step(values, weights, m):
        weights, values = optimizer.stateless_apply(values, [m * values[place]], weights)
        return values, weights

    values, weights, states = [v.value for v in optimizer.variables], [w.value], []
    for m in script:
        values, weights = step(values, weights, np.float32(m))
        states.append((number(values[place]), int(number(values[count])), number(weights[0])))
    return states


# Stock cannot apply statefully on JAX: its condition traces both branches.
runs = {} if backend == "jax" else {"stateful": stateful}
if backend == "jax":
    runs["stateless, jitted"] = stateless
    try:
        keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(RATE)).stateless_apply([], [], [])
    except ValueError as error:  # stock's own
        assert "built" in str(error), error
    else:
        sys.exit("FAILED: an optimizer that is not built was taken")
for name, run in runs.items():
    assert run(SCRIPT) == expected(SCRIPT), (name, run(SCRIPT), expected(SCRIPT))
    last = run([NAN] * 400 + [1.0])[-2:]
    assert last == [(0.25, 0, 1.0), (0.25, 1, 1.0 - RATE)], (name, last)
    for bad, first in [(0.0, 0.25), (INF, 64.0), (NAN, 0.25)]:
        assert run([INF, 1.0], bad)[-1] == (first, 1, 1.0 - RATE), (name, bad, run([INF, 1.0], bad))

# Through the trainer: a burst of NaN batches in float16 leaves finite weights behind.
keras.mixed_precision.set_global_policy("mixed_float16")
model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1, kernel_initializer="zeros")])
model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
x, y = np.ones((60, 2), "float32"), np.ones((60, 1), "float32")
x[10:40] = NAN
model.fit(x, y, batch_size=1, epochs=6, shuffle=False, verbose=0)
assert number(model.optimizer.dynamic_scale) >= 0.25
assert all(np.all(np.isfinite(weight)) for weight in model.get_weights()), model.get_weights()
assert abs(float(model.predict(x[:1], verbose=0)[0, 0]) - 1) < 0.05

# The record, and the policies at the floor, through the trainer: ten bad batches from 2**15 down to 2**13.
quarter = keras.initializers.Constant(0.25)  # so that a good batch does not overflow at the initial scale
for policy in ("skip", "warn", "raise"):
    tfls_patch.revert()
    tfls_patch.apply(min_scale=2.0**13, at_floor=policy, patience=5)
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1, kernel_initializer=quarter)])
    model.compile(optimizer=keras.optimizers.SGD(2.0**-6), loss="mse")
    x, y = np.ones((30, 2), "float32"), np.ones((30, 1), "float32")
    x[10:20] = NAN
    said, raised = "", ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(x, y, batch_size=1, shuffle=False, verbose=0)
        except Exception as error:
            raised = str(error)
            assert backend == "jax" or isinstance(error, tfls_patch.LossScaleFloorError), error
    said = [str(each.message) for each in caught if "at its floor" in str(each.message)]
    assert (len(said) == 1) == (policy == "warn") and ("at its floor" in raised) == (policy == "raise"), (said, raised)
    if raised:
        continue
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        stats = tfls_patch.stats(model.optimizer)
    told = [each for each in caught if "Only the scale is known: on JAX" in str(each.message)]
    if backend == "jax" and policy == "skip":
        assert stats == (2.0**13, None, None, None, None, None) and len(told) == 1, stats
    else:
        assert stats == (2.0**13, 10, 0, 8, 2.0**13, 2.0**15) and not told, stats
tfls_patch.revert()
tfls_patch.apply(min_scale=0.25, max_scale=64.0)

# float16 losses and variables.
w = keras.Variable([1.0, 2.0], dtype="float16")
optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.25), initial_scale=0.25)
optimizer.build([w])
assert number(optimizer.scale_loss(keras.ops.ones((), "float16"))) == 0.25
gradient = keras.ops.full((2,), 0.25, "float16")
if backend == "jax":
    weights, _ = optimizer.stateless_apply([v.value for v in optimizer.variables], [gradient], [w.value])
    assert list(np.array(weights[0])) == [0.75, 1.75], weights
else:
    optimizer.apply([gradient], [w])
    assert list(keras.ops.convert_to_numpy(w)) == [0.75, 1.75]

tfls_patch.revert()
assert not tfls_patch.status().patched
print("OK " + backend)
