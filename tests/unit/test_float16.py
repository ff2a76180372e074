"""float16 products and quotients, in NumPy, against float64 rounded once."""

import numpy as np
import pytest

from tfls_patch import _float16


class Library(object):
    """What the arithmetic asks of an array library."""

    where, equal, less, greater = (
        staticmethod(np.where),
        staticmethod(np.equal),
        staticmethod(np.less),
        staticmethod(np.greater),
    )
    logical_and, abs = staticmethod(np.logical_and), staticmethod(np.abs)

    @staticmethod
    def cast(values, dtype):
        return np.asarray(values).astype(dtype)


def halves():
    """Every finite float16."""
    values = np.arange(2**16, dtype=np.uint16).view(np.float16)
    return values[np.isfinite(values)]


SCALES = [1e-4, 0.1, 1 / 3.0, 0.7, 3.0, 1000.1, 1e-6, 2.0**-14, 2.0**-24, 1.0, 2.0**15, 1 - 2.0**-24, 1e30, 1e-30]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ["product", "quotient"])
def test_every_float16_is_rounded_once(name, scale):
    scale = np.array([scale], np.float32)  # an array: old NumPys widen scalars
    with np.errstate(all="ignore"):
        result = getattr(_float16, name)(Library, halves(), scale)
        wide = halves().astype(np.float64)
        exact = wide * scale.astype(np.float64) if name == "product" else wide / scale.astype(np.float64)
        expected = exact.astype(np.float16)  # float64 holds the product; NumPy rounds it once
    # Just below what rounds to infinity, the other neighbor is not known.
    at_the_edge = np.abs(exact) > 65519.99
    assert result.dtype == np.float16
    differs = (result != expected) & ~at_the_edge
    assert not differs.any(), (halves()[differs][:5], result[differs][:5], expected[differs][:5])


def test_rounding_twice_would_be_seen():
    """The test above can fail: float32 first, then float16, is wrong for some of its numbers."""
    with np.errstate(all="ignore"):
        twice = (halves().astype(np.float32) / np.float32(1e-4)).astype(np.float16)
        once = (halves().astype(np.float64) / np.float64(np.float32(1e-4))).astype(np.float16)
    assert (twice != once).any()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_stays_so(value):
    with np.errstate(all="ignore"):
        for function in (_float16.product, _float16.quotient):
            assert not np.isfinite(function(Library, np.array([value], np.float16), np.float32(1e-4)))


def test_only_float16_is_widened():
    for dtype in (np.float32, np.float64):
        operand = np.ones(2, dtype)
        assert _float16.widened(Library, operand) is operand
    assert _float16.widened(Library, np.ones(2, np.float16)).dtype == np.float32
    assert _float16.widened(Library, None) is None and not _float16.is_float16(None)


def test_slices_stay_slices():
    class Slices(object):
        def __init__(self, values, indices, dense_shape):
            self.values, self.indices, self.dense_shape = values, indices, dense_shape
            self.dtype = values.dtype

    result = _float16.quotient(Library, Slices(np.ones(2, np.float16), [0, 2], [4]), np.float32(0.5))
    assert isinstance(result, Slices) and list(result.values) == [2, 2] and result.indices == [0, 2]
