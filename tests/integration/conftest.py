"""Runs scenario scripts, each in a Python of its own: patching and TensorFlow's modes are process-wide."""

import functools
import os

import pytest

from forks import Forks
from processes import run_python

SCENARIOS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scenarios")


@pytest.fixture
def python(tmp_path):
    """Returns ``python(*arguments, **variables) -> Finished``: runs this interpreter in an empty folder."""
    return functools.partial(run_python, tmp_path)


@pytest.fixture(scope="session")
def forks():
    forks = Forks()
    yield forks
    forks.close()


@pytest.fixture
def scenario(tmp_path, forks):
    """Returns ``scenario(name, *arguments) -> its output``: runs it where TensorFlow is loaded, but nothing of ours."""

    def run(name, *arguments):
        return _output(forks.run(tmp_path, _script(name), arguments))

    return run


@pytest.fixture
def scenario_from_the_start(python):
    """The same in a Python that has imported nothing; takes variables, too."""

    def run(name, *arguments, **variables):
        return _output(python(_script(name), *arguments, **variables))

    return run


def _script(name):
    return os.path.join(SCENARIOS, name + ".py")


def _output(finished):
    """What a scenario has printed; fails if it does not end in OK."""
    ending = (finished.stdout.strip().splitlines() or [""])[-1]
    assert finished.returncode == 0 and ending.startswith("OK"), finished.stdout + finished.stderr[-4000:]
    return finished.stdout
