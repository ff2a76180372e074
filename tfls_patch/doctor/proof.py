"""Proof that the patch works: overflows, driven through every patched function, and the scale that comes out.

Each drive starts one loss scale just above the floor and feeds it two infinite gradients. By the contract it must then
stand at the floor, and the weight must be what it was. Stock would go back up to 1 (TensorFlow, Keras 2) or on down
through the floor (Keras 3). While a drive runs, a profiler notes which of the replacements were really called.
"""

import collections
import contextlib
import importlib
import sys

from tfls_patch import _rules
from tfls_patch._patcher import PATCHER
from tfls_patch._report import scale_text
from tfls_patch._settings import SKIP
from tfls_patch.doctor._finding import fail, note, ok

_WEIGHT = 1.0
_INFINITE = float("inf")
_GROWTH_INTERVAL = 2000

Seen = collections.namedtuple("Seen", ["what", "scales", "expected", "weight"])
Seen.__doc__ = """What a drive saw.

Attributes:
    what: The class that it drove.
    scales: The scale at the start and after each overflow.
    expected: What the contract says they are.
    weight: The weight after it; 1 if no step was taken.
"""


def overflows():
    """Drives every patched function, and compares the scales that come out with the contract."""
    entries = PATCHER.snapshot().entries
    if not entries:
        return [fail("overflow", "there is nothing to try it on", "see the lines above")]
    _prepare()
    reached, findings = set(), []
    modules = collections.OrderedDict((entry.leaf, entry.module) for entry in entries)
    with _without_policy(), _noting_calls(reached):
        for leaf, module in modules.items():
            findings.extend(_tried(leaf, drive, module) for drive in _drives(leaf, module))
    missed = [entry.name for entry in entries if entry.replacement.__code__ not in reached]
    if missed:
        why = "no overflow on this backend goes through %s" % ", ".join(sorted(set(missed)))
        findings.append(note("overflow", why))
    return findings


def _tried(leaf, drive, module):
    try:
        seen = drive(module, _expected_scales())
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        return fail("overflow", "%s: %s: %s" % (leaf, type(error).__name__, text), "please report this")
    path = " -> ".join(map(scale_text, seen.scales))
    found = "%s: %s, weight %s" % (seen.what, path, "untouched" if seen.weight == _WEIGHT else repr(seen.weight))
    if seen.scales != seen.expected or seen.weight != _WEIGHT:
        wanted = " -> ".join(map(scale_text, seen.expected))
        return fail("overflow", found, "the scales should have been %s, and the weight untouched" % wanted)
    return ok("overflow", found)


def _expected_scales():
    """The scale at the start, and after one and two overflows, in plain Python."""
    low, high = _rules.settings().rule[:2]
    start = min(2.0 * low, high)
    return [start, max(start / 2.0, low), low]


@contextlib.contextmanager
def _without_policy():
    """Turns the at-floor policy off meanwhile: the proof overflows at the floor on purpose."""
    settings = _rules.settings()
    _rules.use(settings.replaced(at_floor=SKIP))
    try:
        yield
    finally:
        _rules.use(settings)


@contextlib.contextmanager
def _noting_calls(reached):
    """Adds the code of every Python function that is called meanwhile to `reached`."""

    def profile(frame, event, argument):
        if event == "call":
            reached.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)


# --- the drives ------------------------------------------------------------------------------------------------------


def _drives(leaf, module):
    """The drives for one leaf module, by what it holds."""
    if leaf == "keras.src.optimizers.loss_scale_optimizer":
        return [_keras_3]
    if leaf.endswith("python.loss_scale_manager"):
        return [_contrib_manager]
    if leaf.endswith("contrib.mixed_precision.python.loss_scale_optimizer"):
        return [_contrib_optimizer]
    if leaf.endswith("training.experimental.loss_scale"):
        return [_dynamic_loss_scale, _fixed_loss_scale]
    if leaf.endswith("training.experimental.loss_scale_optimizer"):
        return [_tf1_optimizer]
    if leaf.endswith("loss_scaling_gradient_tape"):
        return [_gradient_tape]
    if leaf.endswith("mixed_precision.experimental.loss_scale_optimizer"):
        return [_experimental_keras]
    return [_keras_2] + ([_keras_2_new] if hasattr(module, "LossScaleOptimizerV3") else [])


def _dynamic_loss_scale(module, expected):
    def build(tf, weight):
        loss_scale = module.DynamicLossScale(expected[0], _GROWTH_INTERVAL)
        return loss_scale(), loss_scale.update([tf.constant(_INFINITE)])[0]

    return _in_a_session("DynamicLossScale", build, expected)


def _fixed_loss_scale(module, expected):
    scale = module.FixedLossScale(0.25)._loss_scale_value
    return Seen("FixedLossScale(0.25)", [float(scale)], [0.25], _WEIGHT)


def _tf1_optimizer(module, expected):
    def build(tf, weight):
        loss_scale = _core("DynamicLossScale")(expected[0], _GROWTH_INTERVAL)
        inner = tf.compat.v1.train.GradientDescentOptimizer(1.0)
        optimizer = module.MixedPrecisionLossScaleOptimizer(inner, loss_scale)
        return loss_scale(), optimizer.minimize(weight * _INFINITE)

    return _in_a_session("MixedPrecisionLossScaleOptimizer", build, expected)


def _contrib_manager(module, expected):
    def build(tf, weight):
        module.FixedLossScaleManager(0.25)
        manager = _exponential_manager(expected[0])
        return manager.get_loss_scale(), manager.update_loss_scale(tf.constant(False))

    return _in_a_session("ExponentialUpdateLossScaleManager", build, expected)


def _contrib_optimizer(module, expected):
    def build(tf, weight):
        manager = _exponential_manager(expected[0])
        optimizer = module.LossScaleOptimizer(tf.compat.v1.train.GradientDescentOptimizer(1.0), manager)
        return manager.get_loss_scale(), optimizer.minimize(weight * _INFINITE, var_list=[weight])

    return _in_a_session("LossScaleOptimizer of contrib", build, expected)


def _exponential_manager(initial):
    managers = importlib.import_module("tensorflow.contrib.mixed_precision.python.loss_scale_manager")
    return managers.ExponentialUpdateLossScaleManager(
        initial, _GROWTH_INTERVAL, decr_every_n_nan_or_inf=1, decr_ratio=0.5
    )


def _gradient_tape(module, expected):
    import tensorflow as tf

    loss_scale, weight = _core("DynamicLossScale")(expected[0], _GROWTH_INTERVAL), tf.Variable(_WEIGHT)
    scales = [_number(loss_scale())]
    with module.LossScaleGradientTape(loss_scale) as tape:
        loss = weight * _INFINITE
    tape.gradient(loss, weight)
    # It retries by itself, down to the floor.
    return Seen("LossScaleGradientTape", scales + [_number(loss_scale())], [expected[0], expected[-1]], _number(weight))


def _experimental_keras(module, expected):
    loss_scale = _core("DynamicLossScale")(expected[0], _GROWTH_INTERVAL)
    inner = _sgd("tensorflow.python.keras", ["optimizer_v2.gradient_descent"])
    optimizer = module.LossScaleOptimizer(inner, loss_scale)
    name = "experimental.LossScaleOptimizer"
    return _keras_steps(name, optimizer, lambda: optimizer._loss_scale(), expected)


def _keras_2(module, expected):
    home = module.__name__.split(".mixed_precision")[0]
    inner = _sgd(home, ["optimizers.legacy.gradient_descent", "optimizers.optimizer_v2.gradient_descent",
                        "optimizer_v2.gradient_descent"])  # fmt: skip
    return _keras_2_steps(module.LossScaleOptimizer, inner, expected)


def _keras_2_new(module, expected):
    home = module.__name__.split(".mixed_precision")[0]
    inner = _sgd(home, ["optimizers.optimizer_experimental.sgd", "optimizer_experimental.sgd", "optimizers.sgd"])
    return _keras_2_steps(module.LossScaleOptimizerV3, inner, expected)


def _keras_2_steps(cls, inner, expected):
    optimizer = cls(inner, initial_scale=expected[0], dynamic_growth_steps=_GROWTH_INTERVAL)
    name = "%s of %s" % (cls.__name__, cls.__module__.split(".mixed_precision")[0])
    return _keras_steps(name, optimizer, lambda: optimizer.loss_scale, expected)


def _keras_steps(name, optimizer, scale, expected):
    """Trains one weight eagerly on an infinite loss."""
    import tensorflow as tf

    weight = tf.Variable(_WEIGHT)
    scales = [_number(scale())]
    for _ in expected[1:]:
        if not hasattr(optimizer, "get_scaled_loss"):  # TensorFlow 1.14
            optimizer.minimize(lambda: weight * _INFINITE, [weight])
        else:
            with tf.GradientTape() as tape:
                loss = optimizer.get_scaled_loss(weight * _INFINITE)
            gradients = optimizer.get_unscaled_gradients(tape.gradient(loss, [weight]))
            optimizer.apply_gradients(list(zip(gradients, [weight])))
        scales.append(_number(scale()))
    return Seen(name, scales, expected, _number(weight))


def _keras_3(module, expected):
    backend, ops = importlib.import_module("keras.src.backend"), importlib.import_module("keras.src.ops")
    weight = backend.Variable(_WEIGHT)
    optimizer = module.LossScaleOptimizer(
        _sgd("keras.src", ["optimizers.sgd"]), initial_scale=expected[0], dynamic_growth_steps=_GROWTH_INTERVAL
    )
    optimizer.build([weight])
    optimizer.scale_loss(ops.convert_to_tensor(1.0))
    finite, infinite = [ops.convert_to_tensor(0.0)], [ops.convert_to_tensor(_INFINITE)]
    scales = [_number(optimizer.dynamic_scale)]
    if backend.backend() == "jax":  # stock's stateful `apply` fails there
        values = [variable.value for variable in optimizer.variables]
        position = [variable is optimizer.dynamic_scale for variable in optimizer.variables].index(True)
        weights = [weight.value]
        weights, values = optimizer.stateless_apply(values, finite, weights)
        for _ in expected[1:]:
            weights, values = optimizer.stateless_apply(values, infinite, weights)
            scales.append(_number(values[position]))
        return Seen("LossScaleOptimizer of keras on jax", scales, expected, _number(weights[0]))
    optimizer.apply(finite, [weight])
    # The first goes the way of `fit`, the second that of strategies that merge no calls, and of the torch backend.
    for apply in (optimizer.apply, optimizer._common_apply):
        apply(infinite, [weight])
        scales.append(_number(optimizer.dynamic_scale))
    optimizer.stateless_apply([variable.value for variable in optimizer.variables], infinite, [weight.value])
    return Seen("LossScaleOptimizer of keras on %s" % backend.backend(), scales, expected, _number(weight))


# --- what they are made of -------------------------------------------------------------------------------------------


def _in_a_session(name, build, expected):
    """Builds in a graph of its own, and runs it; `build(tf, weight)` returns the scale and the train operation."""
    import tensorflow as tf

    with tf.Graph().as_default():
        weight = tf.compat.v1.get_variable("weight", initializer=_WEIGHT, use_resource=True)
        scale, train = build(tf, weight)
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            scales = [float(session.run(scale))]
            for _ in expected[1:]:
                session.run(train)
                scales.append(float(session.run(scale)))
            return Seen(name, scales, expected, float(session.run(weight)))


def _prepare():
    """Switches TensorFlow 1 to eager execution, where one code does for all versions, and hushes its advice."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None:
        return
    tensorflow.compat.v1.logging.set_verbosity(tensorflow.compat.v1.logging.ERROR)
    if not tensorflow.executing_eagerly():
        tensorflow.compat.v1.enable_eager_execution()


def _core(name):
    return getattr(sys.modules["tensorflow.python.training.experimental.loss_scale"], name)


def _sgd(home, places):
    """Makes the plain optimizer of the Keras in the package `home`; it moved over the years."""
    for place in places:
        try:
            module = importlib.import_module("%s.%s" % (home, place))
        except ImportError:
            continue
        return module.SGD(1.0)
    raise ImportError("no SGD in %s" % home)


def _number(tensor):
    return float(tensor.numpy() if hasattr(tensor, "numpy") else tensor)
