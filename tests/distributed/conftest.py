"""What these tests find out is said in docs/distributed.md: ``--record-distributed FILE`` writes it down as JSON."""

import functools
import json
import os
import sys

import pytest

INTEGRATION = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration")
sys.path.insert(0, INTEGRATION)

import cluster
from processes import run_python

_found = {}


def pytest_addoption(parser):
    parser.addoption("--record-distributed", metavar="FILE", help="write what the tests found into this JSON file")


@pytest.fixture
def job(tmp_path):
    """Returns ``job(count, **arguments) -> [Worker]``, see `cluster.train`."""
    return functools.partial(cluster.train, folder=tmp_path)


@pytest.fixture
def scenario(tmp_path):
    """Returns ``scenario(name, *arguments) -> the lines of its output``; fails if the last is not OK."""

    def run(name, *arguments):
        finished = run_python(tmp_path, os.path.join(cluster.SCENARIOS, name + ".py"), *arguments)
        lines = finished.stdout.strip().splitlines()
        assert finished.returncode == 0 and lines[-1].startswith("OK"), finished.stdout + finished.stderr[-4000:]
        return lines

    return run


@pytest.fixture
def found():
    """Returns ``found(what, text)``: notes what is to be said of this TensorFlow."""
    return _found.__setitem__


def pytest_sessionfinish(session, exitstatus):
    path = session.config.getoption("--record-distributed")
    if path and exitstatus == 0:
        with open(path, "w") as file:
            json.dump(_found, file, indent=1, sort_keys=True)
