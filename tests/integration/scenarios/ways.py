"""One script of steps in every way of running them: eager, traced, compiled, in a loop, in ``fit``: one trajectory."""

import numpy as np

import surfaces
from surfaces import KERAS_3, VERSION, tf

import tfls_patch

INF, NAN = float("inf"), float("nan")
SCRIPT = [INF, INF, NAN, INF, 1.0, 1.0, INF, 1.0, 1.0, 1.0, 1.0, 1.0, NAN, 1.0, 1.0]
INITIAL, INTERVAL, FLOOR = 1.0, 2, 2.0**-3
#: The states that the rule gives: scale, good steps, weight in units of the rate below 1.
EXPECTED = [(0.5, 0, 0), (0.25, 0, 0), (0.125, 0, 0), (0.125, 0, 0), (0.125, 1, 1), (0.25, 0, 2), (0.125, 0, 2)]
EXPECTED += [
    (0.125, 1, 3),
    (0.25, 0, 4),
    (0.25, 1, 5),
    (0.5, 0, 6),
    (0.5, 1, 7),
    (0.25, 0, 7),
    (0.25, 1, 8),
    (0.5, 0, 9),
]
SIGNATURE = [tf.TensorSpec([], tf.float32)]


def functions():
    """``{way: decorator}`` for what this TensorFlow knows."""
    found = {
        "eager": lambda train: train,
        "function": tf.function,
        "autograph off": lambda train: tf.function(train, autograph=False),
        "input_signature": lambda train: tf.function(train, input_signature=SIGNATURE),
        "relaxed shapes": lambda train: tf.function(train, experimental_relax_shapes=True),
    }
    if VERSION >= (2, 9):
        found["relaxed shapes"] = lambda train: tf.function(train, reduce_retracing=True)
    if VERSION >= (2, 5):
        found["jit_compile"] = lambda train: tf.function(train, jit_compile=True)
    if VERSION < (1, 15):
        del found["relaxed shapes"]
    return found


def with_condition(train):
    """The same step inside of Python control flow that AutoGraph has to convert."""

    def step(m):
        for _ in tf.range(1):
            if tf.equal(m, m + 0.0) or tf.math.is_nan(m):
                train(m)

    return step


def expected_states():
    return [(scale, good, 1.0 - surfaces.RATE * units) for scale, good, units in EXPECTED]


def check(name, way, surface, step):
    for position, (m, expected) in enumerate(zip(SCRIPT, expected_states())):
        step(tf.constant(m, tf.float32))
        assert surface.state() == expected, (name, way, position, surface.state(), expected)


def check_loop(name, surface):
    """All steps in one graph loop."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def steps(script):
        def body(i):
            surface._train(script[i])
            return i + 1

        tf.while_loop(lambda i: i < len(SCRIPT), body, [0], parallel_iterations=1)

    steps(tf.constant(SCRIPT, tf.float32))
    assert surface.state() == expected_states()[-1], (name, "loop", surface.state())


def check_fit(way, **options):
    """A model whose loss is its weight times the input."""
    surface = surfaces.surfaces("eager")[("keras 3" if KERAS_3 else "keras") + " eager"](INITIAL, INTERVAL)
    optimizer = surface.make_optimizer() if hasattr(surface, "make_optimizer") else surface.optimizer
    if KERAS_3:
        optimizer = type(surface.optimizer).from_config(surface.optimizer.get_config())
    tf.keras.backend.set_floatx("float32")
    layer = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", input_shape=(1,))
    model = tf.keras.Sequential([layer])
    model.compile(optimizer, loss=lambda label, prediction: tf.reduce_mean(prediction), **options)
    tfls_patch.stats(model.optimizer)
    x = np.array(SCRIPT, "float32").reshape(-1, 1)
    model.fit(x, np.ones_like(x), batch_size=1, epochs=1, shuffle=False, verbose=0)
    stats = tfls_patch.stats(model.optimizer)
    scale, _, weight = expected_states()[-1]
    assert stats == (scale, 6, 0, 1, FLOOR, INITIAL), (way, stats)
    assert float(model.get_weights()[0][0][0]) == weight, (way, model.get_weights())


def fits():
    """``{way: options of compile}``"""
    found = {}
    if VERSION >= (2, 2):
        found.update({"fit": {}, "run_eagerly": {"run_eagerly": True}})
    if VERSION == (2, 3):
        found["steps_per_execution"] = {"experimental_steps_per_execution": 5}
    if VERSION >= (2, 4):
        found["steps_per_execution"] = {"steps_per_execution": 5}
    if VERSION >= (2, 9):
        found["jit_compile"] = {"jit_compile": True}
    return found


surfaces.start("eager")
tfls_patch.apply(min_scale=FLOOR)
ways = functions()
for name, make in sorted(surfaces.surfaces("eager").items()):
    if not name.endswith("eager"):
        continue
    for way, decorate in sorted(ways.items()):
        surface = make(INITIAL, INTERVAL)
        check(name, way, surface, decorate(surface._train))
    if VERSION >= (2, 0):
        surface = make(INITIAL, INTERVAL)
        check(name, "autograph", surface, tf.function(with_condition(surface._train)))
    check_loop(name, make(INITIAL, INTERVAL))
for way, options in sorted(fits().items()):
    check_fit(way, **options)
print("OK", sorted(ways), sorted(fits()))
