"""Records and policies in real training: ``fit``, two optimizers in one step, replicas, checkpoints, sessions."""

import sys
import warnings

import numpy as np

import surfaces
from surfaces import KERAS_3, LEGACY_KERAS, VERSION, loss_scales, tf, tf1

import tfls_patch

INF, NAN = float("inf"), float("nan")


def apply(**settings):
    tfls_patch.revert()
    tfls_patch.apply(**settings)


def raises(call, kinds, *parts):
    """Asserts that a call raises one of these, with all these parts in its text."""
    try:
        call()
    except kinds as error:
        assert all(part in str(error) for part in parts), (parts, str(error))
        return
    surfaces.fail("nothing was raised, expected %s" % (parts,))


def keras_model(**compiling):
    """A model under ``mixed_float16``, compiled; its optimizer is wrapped by Keras itself."""
    if VERSION >= (2, 4):
        tf.keras.mixed_precision.set_global_policy("mixed_float16")
    else:
        tf.keras.mixed_precision.experimental.set_policy("mixed_float16")
    small = tf.keras.initializers.Constant(0.125)  # so that a good batch does not overflow at the initial scale
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(4, kernel_initializer=small, input_shape=(2,)),
            tf.keras.layers.Dense(1, kernel_initializer=small, dtype="float32"),
        ]
    )
    model.compile(tf.keras.optimizers.SGD(2.0**-6), loss="mse", **compiling)
    return model


def check_fit():
    """NaN batches: counted, survived, and given up if so told."""
    x, y = np.ones((40, 2), "float32"), np.ones((40, 1), "float32")
    x[10:30] = NAN
    apply(min_scale=2.0**10)
    model = keras_model()
    model.fit(x, y, batch_size=1, epochs=1, shuffle=False, verbose=0)  # nobody has asked for a record
    stats = tfls_patch.stats(model.optimizer)
    assert stats == (2.0**10, 20, 0, 15, 2.0**10, 2.0**15), stats
    assert all(np.isfinite(weight).all() for weight in model.get_weights())

    apply(min_scale=2.0**10, at_floor="raise", patience=3)
    model = keras_model()
    errors = (tf.errors.InvalidArgumentError, tfls_patch.LossScaleFloorError)
    raises(
        lambda: model.fit(x, y, batch_size=1, epochs=1, shuffle=False, verbose=0), errors, "1024", "3 steps in a row"
    )
    assert all(np.isfinite(weight).all() for weight in model.get_weights())
    model.fit(x[:5], y[:5], batch_size=1, epochs=1, verbose=0)
    assert tfls_patch.stats(model.optimizer).skipped_in_a_row == 0


def check_ways_of_fit():
    """Several steps at once, and compiled by XLA: on record as well, and the model can be saved afterwards."""
    x, y = np.ones((8, 2), "float32"), np.ones((8, 1), "float32")
    x[2:6] = NAN
    ways = [{"steps_per_execution": 4}] if VERSION >= (2, 4) else []
    if VERSION >= (2, 9):  # Keras takes it from then on
        ways += [{"jit_compile": True}, {"jit_compile": False}]
    for way in ways:
        apply(min_scale=2.0**14)
        model = keras_model(**way)
        model.fit(x, y, batch_size=1, epochs=1, shuffle=False, verbose=0)
        stats = tfls_patch.stats(model.optimizer)
        assert stats == (2.0**14, 4, 0, 3, 2.0**14, 2.0**15), (way, stats)
        tf.saved_model.save(model, "./saved")
        assert not any("tfls" in name for name, _ in tf.train.list_variables("./saved/variables/variables")), way


def check_two_optimizers_in_one_step():
    """A GAN: one traced step, two floors, two records."""
    apply(min_scale=2.0**-14)
    name = ("keras 3" if KERAS_3 else "keras") + " eager"
    one, other = (surfaces.surfaces("eager")[name](2.0, 2000) for _ in range(2))
    tfls_patch.set_bounds(one.optimizer, min_scale=0.5)
    tfls_patch.set_bounds(other.optimizer, min_scale=2.0**-3)
    assert tfls_patch.stats(one.optimizer).skipped == tfls_patch.stats(other.optimizer).skipped == 0

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def step(m):
        one._train(m)
        other._train(m * 2.0)

    for m in [INF] * 6 + [1.0]:
        step(tf.constant(m, tf.float32))
    assert tfls_patch.stats(one.optimizer) == (0.5, 6, 0, 4, 0.5, 2.0), tfls_patch.stats(one.optimizer)
    assert tfls_patch.stats(other.optimizer) == (2.0**-3, 6, 0, 2, 2.0**-3, 2.0), tfls_patch.stats(other.optimizer)
    assert (one.state()[2], other.state()[2]) == (1.0 - surfaces.RATE, 1.0 - 2 * surfaces.RATE)


def check_replicas():
    """Two replicas: a skip counts once, and the policy is followed."""
    if VERSION < (2, 1):
        return
    cpus = tf.config.experimental.list_physical_devices("CPU")
    logical = tf.config.experimental.VirtualDeviceConfiguration()
    tf.config.experimental.set_virtual_device_configuration(cpus[0], [logical, logical])
    strategy = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    apply(min_scale=0.5, at_floor="raise", patience=3)
    with strategy.scope():
        loss_scale = loss_scales().DynamicLossScale(2.0, 2000)

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def step(m):
        return loss_scale.update([m])[1]

    def update(m):
        with strategy.scope():
            step(tf.constant(m, tf.float32))

    update(1.0)
    for m in [INF] * 4:
        update(m)
    stats = tfls_patch.stats(loss_scale)
    assert stats == (0.5, 4, 4, 2, 0.5, 2.0), stats
    raises(lambda: update(INF), tf.errors.InvalidArgumentError, "3 steps in a row")


def check_checkpoint():
    """Nothing of the record is in a checkpoint, or among the variables."""
    if VERSION < (2, 0) or KERAS_3 and not hasattr(tf.keras.optimizers.LossScaleOptimizer, "_trackable_children"):
        return
    apply(min_scale=0.5)
    surface = surfaces.surfaces("eager")[("keras 3" if KERAS_3 else "keras") + " function"](2.0, 2000)
    assert tfls_patch.stats(surface.optimizer).skipped == 0
    surface.step(1.0)  # makes what stock makes late
    before = count_of_variables(surface.optimizer)
    surface.step(INF)
    assert tfls_patch.stats(surface.optimizer).skipped == 1
    assert count_of_variables(surface.optimizer) == before
    path = tf.train.Checkpoint(optimizer=surface.optimizer).save("./skips")
    names = [name for name, _ in tf.train.list_variables(path)]
    assert not any("tfls" in name or "skip" in name for name in names), names


def count_of_variables(optimizer):
    if VERSION[:2] == (2, 11):  # its wrapper fails when asked, stock too
        optimizer = optimizer.inner_optimizer
    variables = optimizer.variables
    return len(variables() if callable(variables) else variables)


def check_in_a_trace():
    apply(min_scale=0.5)
    surface = surfaces.surfaces("eager")["DynamicLossScale eager"](2.0, 2000)
    raises(
        lambda: tf.function(lambda: tfls_patch.stats(surface.owner), autograph=False)(),
        tfls_patch.LossScaleError,
        "outside of tf.function",
    )
    for wrong in (surfaces.keras_sgd(), object(), None, loss_scales().FixedLossScale(2.0)):
        raises(lambda: tfls_patch.stats(wrong), TypeError, type(wrong).__name__)


def check_sessions():
    """TF1: no Saver and no collection knows of the record; another session has one of its own."""
    apply(min_scale=0.5)
    surface = surfaces.Tf1OptimizerSurface(2.0, 2000)
    raises(lambda: tfls_patch.stats(surface.owner), tfls_patch.LossScaleError, "session.as_default()")
    surface.step(INF)
    with surface.graph.as_default():
        names = [variable.name for variable in tf1.global_variables()]
        assert len(names) == 4 and not any("tfls" in name for name in names), names
        path = tf1.train.Saver().save(surface.session, "./session")
    with surface.session.as_default():
        assert tfls_patch.stats(surface.optimizer) == (1.0, 1, 1, 0, 1.0, 2.0), tfls_patch.stats(surface.optimizer)
    surface.graph.finalize()
    with surface.session.as_default():
        assert tfls_patch.stats(surface.owner).skipped == 1, "what has been read once can be read in a finalized graph"
    with tf1.Session(graph=surface.graph) as fresh:
        with surface.graph.as_default():
            fresh.run([v.initializer for v in surface.graph.get_collection("variables")])
        assert tfls_patch.stats(surface.owner) == (2.0, 0, 0, 0, 2.0, 2.0), tfls_patch.stats(surface.owner)
    late = surfaces.Tf1OptimizerSurface(2.0, 2000)
    late.graph.finalize()
    late.step(INF)
    with late.session.as_default():
        raises(lambda: tfls_patch.stats(late.owner), tfls_patch.LossScaleError, "finalized")
    assert path


surfaces.start(sys.argv[1])
if sys.argv[1] == "graph":
    check_sessions()
else:
    check_replicas()  # first: the devices must be set up before TensorFlow is used
    if VERSION >= (2, 1):
        check_fit()
        check_ways_of_fit()
    check_two_optimizers_in_one_step()
    check_checkpoint()
    check_in_a_trace()
print("OK")
