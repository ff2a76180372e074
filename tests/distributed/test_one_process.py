"""Strategies of one process, and what is too long for every run of the tests."""

import json

import pytest
from versions import VERSION


def test_each_strategy_does_what_it_does_in_stock(scenario, found):
    for name, outcome in json.loads(scenario("strategies")[-2]).items():
        found(name, "stock refuses" if "not supported" in outcome else outcome)


@pytest.mark.skipif(VERSION < (2, 1), reason="MirroredStrategy takes loss scaling in a custom loop from TF 2.1 on")
@pytest.mark.parametrize("replicas", ["2", "4"])
def test_replicas_agree(scenario, found, replicas):
    scenario("mirrored", replicas)
    found("MirroredStrategy", "works")


def test_every_way_of_running_a_step_gives_the_same(scenario):
    scenario("ways")


def test_a_long_run_follows_the_reference(scenario):
    scenario("long_run", "100000")
