"""Whether a function takes what a patch was written for."""

import pytest

from tfls_patch._shape import ShapeMismatch, _check_parameters


def fits(function, *expected):
    try:
        _check_parameters("here", function, expected)
    except ShapeMismatch as mismatch:
        assert "here takes (self, loss" in str(mismatch)
        return False
    return True


@pytest.mark.parametrize(
    "expected, is_fit",
    [
        (("self", "loss", "name"), True),
        (("self", "loss"), False),
        (("self", "name", "loss"), False),
        (("self", "loss", Ellipsis), True),
        (("self", "loss", "name", Ellipsis), True),
        (("self", "loss", "name", "more", Ellipsis), False),
        (("self", "name", Ellipsis), False),
    ],
)
def test_parameters_are_checked_in_order(expected, is_fit):
    assert fits(lambda self, loss, name=None: None, *expected) == is_fit
