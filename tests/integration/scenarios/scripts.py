"""Setups and scripts for the conformance run, drawn by hypothesis from a seed; and those that are always played."""

import itertools
import warnings

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning

from reference import LARGEST, SMALLEST, Script, Setup

INF, NAN = float("inf"), float("nan")

#: A step's gradients. Powers of two of at least 1, so that no scaled one is a denormal number.
FINITE = st.sampled_from([1.0, 0.0, -1.0, 2.0, 4.0])
NON_FINITE = st.sampled_from([INF, NAN, -INF])
#: Scales that nobody should restore.
BAD_SCALES = [0.0, INF, NAN, -4.0, -INF, 1e30, 2.0**-40]
LONGEST = 10

#: The first setup of every run, under which the kept scripts are played too.
FIXED = Setup(2.0**-14, 2.0**126, 0, 3, 2.0)

#: Scripts that are played in every run: those that found a fault once, and the corners of the contract.
KEPT = [
    Script(2.0**-13, [("step", INF, 1.0)] * 3 + [("step", 1.0, 1.0)] * 7),
    Script(2.0**126, [("step", 1.0, 1.0)] * 4 + [("step", 4.0, 0.0), ("step", 0.0, 0.0)]),
    Script(1.0, [("step", 0.0, 0.0)] * 4 + [("step", 0.0, NAN), ("step", 0.0, 0.0)]),
    Script(0.0, [("step", 0.0, 0.0), ("step", 1.0, 1.0), ("step", 1.0, 1.0)]),
    Script(4.0, [("restore", NAN, 2), ("step", 0.0, 1.0), ("step", 1.0, 0.0)]),
    Script(
        4.0, [("restore", INF, 0), ("step", 0.0, 0.0), ("restore", -4.0, 2), ("step", 1.0, 1.0), ("step", 1.0, 1.0)]
    ),
    Script(4.0, [("step", 1.0, 1.0), ("step", 1.0, 1.0), ("step", -INF, INF), ("step", 1.0, 1.0), ("step", 1.0, 1.0)]),
    Script(4.0, [("restore", 8.0, 7), ("step", 1.0, 1.0), ("step", 1.0, 1.0)]),
]


def _powers(low, high):
    return st.integers(low, high).map(lambda exponent: 2.0**exponent)


def scales(is_exact):
    """Scales to be bounds."""
    powers = st.one_of(_powers(-24, 16), st.sampled_from([SMALLEST, LARGEST]))
    return powers if is_exact else st.one_of(powers, st.floats(np.float32(1e-6), np.float32(1e6), width=32))


@st.composite
def setups(draw, multipliers=(2.0,), is_exact=False, bounds=None):
    """Draws a `Setup`: of powers of two if `is_exact`; with `bounds`, if given, and then without regrow_steps."""
    low, high = bounds or sorted([draw(scales(is_exact)), draw(scales(is_exact))])
    regrow_steps = 0 if bounds else draw(st.integers(0, 2))
    return Setup(low, high, regrow_steps, draw(st.integers(1, 4)), draw(st.sampled_from(multipliers)))


def confined(setup):
    """The setup with bounds so far inside that products of scale, reciprocal and gradient are finite in any order."""
    low, high = (min(max(bound, 2.0**-60), 2.0**60) for bound in (setup.min_scale, setup.max_scale))
    return setup._replace(min_scale=low, max_scale=high)


@st.composite
def scripts(draw, setup, is_exact=False, is_sane=False):
    """Draws a `Script` for a setup: of powers of two if `is_exact`, without scales that make no sense if `is_sane`."""
    near = [scale * setup.multiplier**i for scale in (setup.min_scale, setup.max_scale) for i in range(-3, 4)]
    highest = 2.0**100 if is_sane else LARGEST / 8  # stock has no ceiling to run into
    near = [scale for scale in near if SMALLEST * 8 <= scale <= highest] + [1.0, 2.0**15]
    if is_sane:
        near = [scale for scale in near if setup.min_scale <= scale]
    elif not is_exact:
        near += [0.01, 3.0]
    inside = st.sampled_from(sorted(set(map(float, map(np.float32, near)))))
    scale = inside if is_sane else st.one_of(inside, inside, st.sampled_from(BAD_SCALES))
    good_steps = st.lists(st.tuples(st.just("step"), FINITE, FINITE), min_size=1, max_size=setup.growth_interval + 2)
    bad = st.one_of(st.tuples(NON_FINITE, FINITE), st.tuples(FINITE, NON_FINITE), st.tuples(NON_FINITE, NON_FINITE))
    burst = st.lists(bad.map(lambda pair: ("step",) + pair), min_size=1, max_size=4)
    restored = st.tuples(st.just("restore"), scale, st.integers(0, setup.growth_interval + 1)).map(
        lambda event: [event]
    )
    parts = draw(st.lists(st.one_of(good_steps, burst, good_steps, burst, restored), min_size=1, max_size=4))
    events = list(itertools.chain(*parts))[:LONGEST]
    return Script(draw(inside), events + [("step", 1.0, 1.0)] * (len(events) < 2 or events[-1][0] == "restore"))


def draw(strategy, count, number):
    """Returns `count` examples of a strategy, the same for the same seed `number`."""
    found = []

    @_settings(count, number, [Phase.generate])
    @given(strategy)
    def collect(example):
        found.append(example)

    _quietly(collect)
    more = itertools.cycle(list(found))  # there may be no more different ones
    return (found + [next(more) for _ in range(count - len(found))])[:count]


def shrunk(strategy, count, number, is_wrong):
    """Returns the simplest example that is wrong among what `draw` gives and what it can be shrunk to, or None."""
    wrong = []

    @_settings(count, number, [Phase.generate, Phase.shrink])
    @given(strategy)
    def check(example):
        if is_wrong(example):
            wrong.append(example)
            raise AssertionError

    try:
        _quietly(check)
    except AssertionError:
        pass
    return wrong[-1] if wrong else None


def _settings(count, number, phases):
    health = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    configured = settings(
        max_examples=count, deadline=None, database=None, phases=phases, suppress_health_check=health, print_blob=False
    )
    return lambda function: seed(number)(configured(function))


def _quietly(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HypothesisWarning)
        function()


def spelled(value):
    """The text of a setup or script, to be pasted into `KEPT`."""
    if isinstance(value, float):
        if value != value:
            return "NAN"
        return {INF: "INF", -INF: "-INF"}.get(value, repr(value))
    if isinstance(value, (Script, Setup)):
        return "%s(%s)" % (type(value).__name__, ", ".join(map(spelled, value)))
    if isinstance(value, (list, tuple)):
        text = ", ".join(map(spelled, value))
        return "[%s]" % text if isinstance(value, list) else "(%s)" % text
    return repr(value)
