"""The statistics of the benchmarks."""

import os
import sys

import pytest

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "..", "benchmarks"))

import common  # noqa: E402  (no package that could be installed)


def test_quantiles_lie_between_neighbours():
    assert common.median([3.0, 1.0, 2.0]) == 2.0 and common.median([4.0, 1.0]) == 2.5
    assert common.quantile([0.0, 10.0, 20.0], 0.1) == pytest.approx(2.0)
    assert common.quantile([5.0], 0.9) == 5.0


def test_rounds_are_compared_with_themselves_not_with_others():
    slow_for_a_while = [1.0, 10.0, 1.0]
    assert common.median(common.ratios([2.0, 20.0, 2.0], slow_for_a_while)) == 2.0
    assert common.differences([2.0, 11.0, 2.0], slow_for_a_while) == [1.0, 1.0, 1.0]
    with pytest.raises(AssertionError):
        common.ratios([1.0], slow_for_a_while)


def test_the_interval_has_the_median_in_it_and_is_the_same_each_time():
    values = [1.0 + number / 100.0 for number in range(41)]
    low, high = common.interval_of_median(values)
    assert 1.0 < low < 1.2 < high < 1.4 and common.interval_of_median(values) == (low, high)


@pytest.mark.parametrize(
    "errors, expected",
    [
        ([100.0, 50.0, 10.0, 9.0], 20),
        ([100.0, 100.0, 100.0, 100.0], None),
        ([100.0, float("nan"), float("nan"), float("nan")], None),
        ([100.0, 0.0, 100.0, 100.0], 10),
    ],
)
def test_steps_to_a_share_of_the_improvement(errors, expected):
    assert common.steps_to_share(errors, [100.0, 5.0, 2.0, 0.0], every=10, share=0.9) == expected


class Refused(Exception):
    pass


class Parser(object):
    def error(self, text):
        raise Refused(text)


@pytest.mark.parametrize("load, busy, refused", [(1.5, False, True), (1.5, True, False), (0.2, False, False)])
def test_a_busy_machine_is_refused_unless_asked_for(monkeypatch, load, busy, refused):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    options = type("Options", (), {"busy": busy})
    if not refused:
        return common.refuse_a_busy_machine(Parser(), options)
    with pytest.raises(Refused):
        common.refuse_a_busy_machine(Parser(), options)


def test_a_table_is_markdown():
    assert common.table(["a", "b"], [[1, "x"]]) == "| a | b |\n| --- | --- |\n| 1 | x |"
