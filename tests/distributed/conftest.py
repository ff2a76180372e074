"""The cells of docs/distributed.md are what these tests found; with ``--record-distributed`` they write them down."""

import functools
import json
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "integration")]

import cluster  # noqa: E402

#: Seconds after which the workers of one job are killed; longer than any took on two busy cores.
TIMEOUT = 120


def pytest_addoption(parser):
    parser.addoption("--record-distributed", metavar="FILE", help="write what the tests found into this JSON file")


@pytest.fixture
def job(tmp_path):
    """Returns ``job(count, prefix=(), environments=None, timeout=TIMEOUT, **arguments) -> [Worker]``."""

    def run(count, prefix=(), environments=None, timeout=TIMEOUT, **arguments):
        command = list(prefix) + [os.path.join(HERE, "worker.py"), json.dumps(arguments)]
        return cluster.run(command, tmp_path, environments or [{}] * count, timeout)

    return run


_found = {}


@pytest.fixture
def found(request):
    """Returns ``found(what, text)``: notes what is to be said of this TensorFlow in the table."""
    return functools.partial(_found.__setitem__)


def pytest_sessionfinish(session, exitstatus):
    path = session.config.getoption("--record-distributed")
    if path and exitstatus == 0:
        with open(path, "w") as file:
            json.dump(_found, file, indent=1, sort_keys=True)
