"""Runs scenario scripts, each in a Python of its own: patching and TensorFlow's modes are process-wide."""

import functools
import os

import pytest

from processes import run_python

SCENARIOS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scenarios")


@pytest.fixture
def python(tmp_path):
    """Returns ``python(*arguments, **variables) -> Finished``: runs this interpreter in an empty folder."""
    return functools.partial(run_python, tmp_path)


@pytest.fixture
def scenario(python):
    """Returns ``scenario(name, *arguments, **variables) -> its output``; fails if the script does not end in OK."""

    def run(name, *arguments, **variables):
        finished = python(os.path.join(SCENARIOS, name + ".py"), *arguments, **variables)
        ending = (finished.stdout.strip().splitlines() or [""])[-1]
        assert finished.returncode == 0 and ending.startswith("OK"), finished.stdout + finished.stderr[-4000:]
        return finished.stdout

    return run
