"""The rule itself, in NumPy's float32, against the contract spelled out in Python."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfls_patch import scaling
from tfls_patch._settings import Settings


class NumpyLibrary(object):
    """What the rule asks of an array library."""

    where, minimum = staticmethod(np.where), staticmethod(np.minimum)
    less, greater_equal = staticmethod(np.less), staticmethod(np.greater_equal)

    @staticmethod
    def convert_to_tensor(value, dtype):
        return np.asarray(value, dtype)


LIBRARY = NumpyLibrary()
scales = st.floats(2.0**-126, 2.0**126, width=32)
anything = st.floats(width=32)


def rule(min_scale, max_scale, **more):
    return Settings.from_environment({})[0].rule._replace(min_scale=min_scale, max_scale=max_scale, **more)


def float32(value):
    with np.errstate(all="ignore"):
        return np.float32(value)


@settings(max_examples=500, deadline=None)
@given(anything, scales, scales)
def test_a_changed_scale_is_always_between_its_bounds(scale, one, other):
    bounds = rule(min(one, other), max(one, other))
    with np.errstate(all="ignore"):
        for changed in (scaling.after_overflow, scaling.after_growth):
            result = float(changed(LIBRARY, np.float32(scale), np.float32(2), bounds))
            assert bounds.min_scale <= result <= bounds.max_scale and math.isfinite(result) and result > 0


@settings(max_examples=300, deadline=None)
@given(scales, scales, scales)
def test_inside_the_bounds_it_is_a_plain_multiplication(scale, one, other):
    bounds = rule(min(one, other), max(one, other))
    with np.errstate(all="ignore"):
        halved, doubled = float32(scale) / np.float32(2), float32(scale) * np.float32(2)
        expected = [min(max(float(each), bounds.min_scale), bounds.max_scale) for each in (halved, doubled)]
        assert float(scaling.after_overflow(LIBRARY, float32(scale), np.float32(2), bounds)) == expected[0]
        assert float(scaling.after_growth(LIBRARY, float32(scale), np.float32(2), bounds)) == expected[1]


def test_nan_becomes_the_floor_and_infinity_the_ceiling():
    bounds = rule(0.25, 64.0)
    with np.errstate(all="ignore"):
        for value, expected in [(np.nan, 0.25), (np.inf, 64.0), (-np.inf, 0.25), (0.0, 0.25), (-0.0, 0.25)]:
            assert float(scaling.bounded(LIBRARY, np.float32(value), bounds)) == expected


def due(good, interval, scale, regrow_steps):
    return bool(
        scaling.growth_is_due(LIBRARY, good, interval, np.float32(scale), rule(0.25, 64.0, regrow_steps=regrow_steps))
    )


def test_growth_is_due_when_this_step_completes_the_interval():
    assert [due(good, 3, 1.0, 0) for good in range(5)] == [False, False, True, True, True]


@pytest.mark.parametrize("scale, steps", [(0.5, 2), (1.0 - 2.0**-24, 2), (1.0, 5), (4.0, 5), (np.nan, 5)])
def test_below_one_the_interval_is_at_most_regrow_steps(scale, steps):
    assert [due(good, 5, scale, 2) for good in range(6)] == [good + 1 >= steps for good in range(6)]
    assert [due(good, 5, scale, 7) for good in range(6)] == [good + 1 >= 5 for good in range(6)]
