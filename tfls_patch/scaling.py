"""The update rule of the loss scale. It stands once, here.

The rule, with ``m`` = min_scale, ``M`` = max_scale, ``k`` = the object's own multiplier, ``n`` = its own growth
interval, ``r`` = regrow_steps, ``good`` = its counter of finite steps::

    any gradient non-finite on any replica:   skip the step;  good = 0;  scale = bounded(scale / k)
    all gradients finite:                     take the step;  good += 1
        if good >= n:                         good = 0;  scale = bounded(scale * k)
    with regrow_steps:                        while scale < 1, n is min(n, r)

    bounded(x):                               min(x, M) if x >= m else m        # NaN -> m

So every change lands in ``m <= scale <= M`` and is finite, whatever was restored or set by hand before; a step with
finite gradients that is not a growth step leaves the scale alone. With m = 1 this is TensorFlow's own rule
(Micikevicius et al., "Mixed Precision Training", 2018, with the floor of 1 that TensorFlow adds).

The functions take the array library as their first argument, ``lib``: a module with ``where``, ``minimum``,
``greater_equal``, ``less``, ``convert_to_tensor`` and ``cast`` (``tf.compat.v2``, or ``keras.ops`` on any backend of
Keras 3). They build graph operations only, and none on the path of a finite step that stock does not have; except that
regrow_steps, if it is used, compares the scale with 1 there.
"""

import math


def bounded(lib, candidate, rule):
    """Brings a new loss scale between its bounds.

    Args:
        lib: The array library.
        candidate: The scale that the multiplier alone would give; scalar float32, may be 0, negative, inf or NaN.
        rule: A `Rule`.

    Returns:
        A scalar float32 tensor in ``[min_scale, max_scale]``, never NaN.
    """
    # `maximum(minimum(x, M), m)` would be one operation less, but what it makes of NaN depends on the device.
    floor = lib.convert_to_tensor(rule.min_scale, "float32")  # once: it is one node for two uses
    return lib.where(lib.greater_equal(candidate, floor), lib.minimum(candidate, rule.max_scale), floor)


def after_overflow(lib, scale, multiplier, rule):
    """The scale after a step with a non-finite gradient: ``bounded(scale / multiplier)``."""
    return bounded(lib, scale / multiplier, rule)


def after_growth(lib, scale, multiplier, rule):
    """The scale when the growth interval is over: ``bounded(scale * multiplier)``."""
    return bounded(lib, scale * multiplier, rule)


def growth_is_due(lib, good, growth_interval, scale, rule):
    """Whether a finite step completes the growth interval.

    Args:
        lib: The array library.
        good: How many finite steps came before this one since the last change; scalar integer tensor.
        growth_interval: A Python int, the object's own.
        scale: The scale of this step; scalar float32.
        rule: A `Rule`.

    Returns:
        A scalar bool tensor: ``good + 1 >= growth_interval``, written with one operation less.
    """
    if not rule.regrow_steps:
        return is_last_of(lib, good, growth_interval)
    quick = is_last_of(lib, good, min(growth_interval, rule.regrow_steps))
    return lib.where(lib.less(scale, 1.0), quick, is_last_of(lib, good, growth_interval))


def is_last_of(lib, count, interval):
    """Whether a step that `count` others came before completes an interval."""
    return lib.greater_equal(count, interval - 1)


def is_power_of_two(number):
    """Whether a Python number is a power of two: then float32 holds every product and quotient with it exactly."""
    return math.frexp(number)[0] == 0.5


def keeps_to_powers_of_two(initial_scale, rule):
    """Whether doubling and halving between the bounds leads from one power of two to another only.

    Args:
        initial_scale: A Python number.
        rule: A `Rule`.
    """
    return all(map(is_power_of_two, (initial_scale, rule.min_scale, rule.max_scale)))
