"""Replicas of a ``MirroredStrategy``, one of which overflows: all skip, the scale is lowered once, all stay equal.

Usage ``mirrored.py COUNT``.

In a custom loop, with the optimizer made inside and outside of the scope, with gradients that are all-reduced before,
with clipping, with two optimizers in one step; and in ``model.fit`` under ``mixed_float16``, with records and policies.
"""

import sys
import warnings

import numpy as np

import surfaces
from surfaces import KERAS_3, VERSION, tf

import tfls_patch

INF, NAN = float("inf"), float("nan")
RATE, FLOOR = 2.0**-10, 2.0**-2
#: The replica that overflows in each step; -1: none of them, -2: all of them.
SCRIPT = [1, 0, -1, 1, -1, -1, -1, -2, -1]
INITIAL, INTERVAL = 1.0, 3


def set_up_devices(count):
    """Splits the CPU; before TensorFlow is used."""
    configuration = tf.config.experimental
    cpu = configuration.list_physical_devices("CPU")[0]
    configuration.set_virtual_device_configuration(cpu, [configuration.VirtualDeviceConfiguration()] * count)


def run_on(strategy, function, *arguments):
    return (getattr(strategy, "run", None) or strategy.experimental_run_v2)(function, args=arguments)


def make_optimizer(**options):
    return surfaces.loss_scaled(tf.keras.optimizers.SGD(RATE, **options), INITIAL, INTERVAL)


class Loop(object):
    """One weight and one optimizer under a strategy; the gradient on each replica is 1, or inf."""

    def __init__(self, strategy, is_made_outside=False, aggregation=None, **options):
        self.strategy, self.aggregation = strategy, aggregation
        if is_made_outside:
            self.optimizer = make_optimizer(**options)
        with strategy.scope():
            self.w = tf.Variable(1.0)
            if not is_made_outside:
                self.optimizer = make_optimizer(**options)
            if hasattr(type(self.optimizer), "build"):
                self.optimizer.build([self.w])

    def train(self, bad):
        """One step, to be called on a replica."""
        context, optimizer, w = tf.distribute.get_replica_context(), self.optimizer, self.w
        is_bad = tf.logical_or(tf.equal(context.replica_id_in_sync_group, bad), tf.equal(bad, -2))
        m = tf.where(is_bad, INF, 1.0)
        with tf.GradientTape() as tape:
            scaled = optimizer.scale_loss(w * m) if KERAS_3 else optimizer.get_scaled_loss(w * m)
        gradients = tape.gradient(scaled, [w])
        if not KERAS_3:
            gradients = optimizer.get_unscaled_gradients(gradients)
        options = {}
        if self.aggregation:
            gradients = context.all_reduce("sum", gradients)
            options[self.aggregation[0]] = self.aggregation[1]
        optimizer.apply_gradients(list(zip(gradients, [w])), **options)

    def states(self):
        """``(scale, good, weight)`` on each replica."""
        variables = surfaces.variables_of(self.optimizer) + (self.w,)
        found = [[float(each.numpy()) for each in self.strategy.experimental_local_results(v)] for v in variables]
        replicas = max(map(len, found))  # a variable made outside of the scope is there once
        return list(zip(*[values * (replicas // len(values)) for values in found]))


def reference(count, change=None):
    """The contract: the states after each step, when a good step changes the weight by `change`."""
    scale, good, weight, states = INITIAL, 0, 1.0, []
    for bad in SCRIPT:
        if bad == -1:
            good, weight = good + 1, weight - (count * RATE if change is None else change)
            if good == INTERVAL:
                good, scale = 0, scale * 2
        else:
            good, scale = 0, max(scale / 2, FLOOR)
        states.append((scale, good, weight))
    return states


def check(name, count, loops, change=None):
    """Drives loops through the script, all in one traced step, and compares each replica with the reference."""

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)])
    def step(bad):
        def on_replica(bad):
            for loop in loops:
                loop.train(bad)

        run_on(loops[0].strategy, on_replica, bad)

    for position, (bad, expected) in enumerate(zip(SCRIPT, reference(count, change))):
        step(tf.constant(bad))
        for loop in loops:
            assert loop.states() == [expected] * count, (name, count, position, loop.states(), expected)


def aggregation():
    """How `apply_gradients` is told that gradients are all-reduced already: a keyword and its value."""
    if KERAS_3 or VERSION < (2, 2):
        return None  # it cannot be told
    if VERSION >= (2, 11):
        return "skip_gradients_aggregation", True
    return "experimental_aggregate_gradients", False


def check_custom_loops(strategy, count):
    check("in scope", count, [Loop(strategy)])
    check("two optimizers", count, [Loop(strategy), Loop(strategy)])
    check("out of scope", count, [Loop(strategy, is_made_outside=True)])
    if aggregation():
        check("all-reduced before", count, [Loop(strategy, aggregation=aggregation())])
    if VERSION >= (2, 4):  # before, stock refuses an inner optimizer that clips
        # Clipping is done on each replica before the reduction, or after it: stock's affair, see `clipped_change`.
        check("clipped", count, [Loop(strategy, clipnorm=0.5)], clipped_change(strategy, {"clipnorm": 0.5}))


def clipped_change(strategy, options):
    """What one good step does with these options where nothing overflows."""
    loop = Loop(strategy, **options)
    step = tf.function(lambda: run_on(strategy, loop.train, tf.constant(-1)))
    step()
    return 1.0 - loop.states()[0][2]


# --- model.fit -----------------------------------------------------------------------------------------------------


def keras_model(strategy):
    """A model under ``mixed_float16``; the optimizer is wrapped by Keras itself."""
    if VERSION >= (2, 4):
        tf.keras.mixed_precision.set_global_policy("mixed_float16")
    else:
        tf.keras.mixed_precision.experimental.set_policy("mixed_float16")
    small = tf.keras.initializers.Constant(0.125)
    with strategy.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.layers.Dense(4, kernel_initializer=small, input_shape=(2,)),
                tf.keras.layers.Dense(1, kernel_initializer=small, dtype="float32"),
            ]
        )
        model.compile(tf.keras.optimizers.SGD(2.0**-6), loss="mse")
    return model


def data(count, bad):
    """16 batches of one sample for each replica; in the batches `bad` the last replica's sample is NaN."""
    x, y = np.ones((16, count, 2), "float32"), np.ones((16, count, 1), "float32")
    x[bad, count - 1] = NAN
    dataset = tf.data.Dataset.from_tensor_slices((x.reshape(-1, 2), y.reshape(-1, 1)))
    return dataset.batch(count, drop_remainder=True)


def fit(model, dataset):
    model.fit(dataset, epochs=1, verbose=0)


def weights_of(model, strategy):
    """The weights on each replica, as bytes."""
    variables = [getattr(weight, "value", None) if KERAS_3 else weight for weight in model.weights]
    by_variable = [strategy.experimental_local_results(variable) for variable in variables]
    return [b"".join(each.numpy().tobytes() for each in replica) for replica in zip(*by_variable)]


def apply(**settings):
    tfls_patch.revert()
    tfls_patch.apply(**settings)


def check_fit(strategy, count):
    apply(min_scale=2.0**13)
    model = keras_model(strategy)
    tfls_patch.stats(model.optimizer)  # asks for the record
    fit(model, data(count, slice(4, 11)))
    stats = tfls_patch.stats(model.optimizer)
    assert stats == (2.0**13, 7, 0, 5, 2.0**13, 2.0**15), stats
    weights = weights_of(model, strategy)
    assert len(weights) == count and len(set(weights)) == 1, "replicas differ"
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


def check_fit_that_is_stuck(strategy, count):
    apply(min_scale=2.0**13, at_floor="raise", patience=3)
    model = keras_model(strategy)
    try:
        fit(model, data(count, slice(4, 11)))
    except (tf.errors.InvalidArgumentError, tfls_patch.LossScaleFloorError) as error:
        assert "8192" in str(error) and "3 steps in a row" in str(error), error
    else:
        surfaces.fail("nothing was raised")
    # Two skips down to the floor, and three there.
    assert tfls_patch.stats(model.optimizer) == (2.0**13, 5, 5, 3, 2.0**13, 2.0**15), tfls_patch.stats(model.optimizer)
    assert len(set(weights_of(model, strategy))) == 1, "replicas differ"
    fit(model, data(count, slice(0, 0)))
    assert tfls_patch.stats(model.optimizer).skipped_in_a_row == 0

    apply(min_scale=2.0**13, at_floor="warn", patience=3)
    model = keras_model(strategy)
    said = surfaces.listen_to_stderr()
    with warnings.catch_warnings():
        warnings.simplefilter("error", tfls_patch.TflsPatchWarning)  # in a graph it is printed
        fit(model, data(count, slice(4, 11)))
    times = said().count("at its floor")
    assert times == 1, "said %d times by %d replicas" % (times, count)
    assert tfls_patch.stats(model.optimizer) == (2.0**13, 7, 0, 5, 2.0**13, 2.0**15)


surfaces.start("eager")
replicas = int(sys.argv[1])
set_up_devices(replicas)
# One in a process: the collectives of two get in each other's way.
mirrored = tf.distribute.MirroredStrategy(["CPU:%d" % index for index in range(replicas)])
apply(min_scale=FLOOR)
check_custom_loops(mirrored, replicas)
check_fit(mirrored, replicas)
check_fit_that_is_stuck(mirrored, replicas)
print("OK")
