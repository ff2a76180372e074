"""Initial and fixed scales: below 1 they count; nonsense is refused where stock does, and else gets a warning."""

import warnings

import surfaces
from surfaces import KERAS_3, VERSION, loss_scales, tf

import tfls_patch

surfaces.start("eager")
tfls_patch.apply()
INF, NAN = float("inf"), float("nan")


def outcome(make, value, argument=""):
    """Returns what becomes of making an object with that scale: ``error``, ``warning`` or ``fine``."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            make(value)
        except ValueError:
            return "error"
    told = [each for each in caught if issubclass(each.category, tfls_patch.TflsPatchWarning)]
    assert len(told) <= 1, [str(each.message) for each in told]
    for each in told:
        assert str(each.message).startswith(argument + "=" if argument else ""), each
        assert each.filename == __file__ and "%r" % value in str(each.message) and "above 0" in str(each.message), each
    return "warning" if told else "fine"


def check(name, make, good, errors, warned, argument=""):
    """Which values are fine, which does stock refuse, which get a warning that begins with the argument."""
    for values, expected in ((good, "fine"), (errors, "error"), (warned, "warning")):
        for value in values:
            found = outcome(make, value, argument)
            assert found == expected, (name, value, found, expected)


GOOD = [2.0**15, 1, 0.5, 2.0**-20]
NONSENSE = [0, 0.0, -3.0, NAN, INF]
check("DynamicLossScale", lambda value: loss_scales().DynamicLossScale(value), GOOD, [], NONSENSE)
check("FixedLossScale", lambda value: loss_scales().FixedLossScale(value), GOOD, [0, -3.0, 1e-45], [NAN, INF])
assert [float(loss_scales().FixedLossScale(value)()) for value in GOOD] == GOOD
if VERSION < (2, 0):
    contrib = tf.contrib.mixed_precision
    check("fixed manager", lambda value: contrib.FixedLossScaleManager(value), GOOD, [0.0, -3.0], [NAN, INF])
    assert [float(contrib.FixedLossScaleManager(value).get_loss_scale()) for value in GOOD] == GOOD
    check("manager", lambda value: contrib.ExponentialUpdateLossScaleManager(value, 10), GOOD, [], NONSENSE)
elif KERAS_3:

    def make_keras_3(value):
        return tf.keras.optimizers.LossScaleOptimizer(surfaces.keras_sgd(), initial_scale=value)

    check("Keras 3", make_keras_3, GOOD, [], NONSENSE, "initial_scale")
elif VERSION >= (2, 4):
    mixed_precision, inners = tf.keras.mixed_precision, [surfaces.keras_sgd]
    if VERSION >= (2, 11):
        inners.append(lambda: tf.keras.optimizers.legacy.SGD(0.1))
    for inner in inners:
        for options in ({}, {"dynamic": True}, {"dynamic": False}):

            def make_keras(value):
                return mixed_precision.LossScaleOptimizer(inner(), initial_scale=value, **options)

            check("Keras, %s" % options, make_keras, GOOD, [], NONSENSE, "initial_scale")
    if VERSION < (2, 9):

        def make_experimental(value):
            return mixed_precision.experimental.LossScaleOptimizer(inners[0](), value)

        check("experimental", make_experimental, GOOD, [], NONSENSE)

# A dynamic scale that starts below 1 is not raised by the first overflow.
for name, make in sorted(surfaces.surfaces("eager").items()):
    surface = make(0.5, 2000)
    surface.step(INF)
    assert surface.state()[0] == 0.25, (name, surface.state())
print("OK")
