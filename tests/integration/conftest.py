"""Runs scenario scripts, each in a Python of its own: patching and TensorFlow's modes are process-wide."""

import os
import subprocess
import sys

import pytest

SCENARIOS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scenarios")


class Finished(object):
    """What a process left behind."""

    def __init__(self, returncode, stdout, stderr):
        self.returncode, self.stdout, self.stderr = returncode, stdout, stderr


@pytest.fixture
def python(tmp_path):
    """Returns ``python(*arguments, **variables) -> Finished``: runs this interpreter in an empty folder.

    Variables are set in the environment, and unset if None. None of this project's are inherited.
    """

    def run(*arguments, **variables):
        environ = {name: value for name, value in os.environ.items() if not name.startswith("TFLS_PATCH")}
        environ.update(CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="3", PYTHONWARNINGS="ignore")
        for name, value in variables.items():
            environ.pop(name, None)
            if value is not None:
                environ[name] = value
        process = subprocess.run(
            (sys.executable,) + arguments,
            env=environ,
            cwd=str(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
            timeout=600,
        )
        return Finished(process.returncode, process.stdout, process.stderr)

    return run


@pytest.fixture
def scenario(python):
    """Returns ``scenario(name, *arguments, **variables) -> its output``; fails if the script does not end in OK."""

    def run(name, *arguments, **variables):
        finished = python(os.path.join(SCENARIOS, name + ".py"), *arguments, **variables)
        ending = (finished.stdout.strip().splitlines() or [""])[-1]
        assert finished.returncode == 0 and ending.startswith("OK"), finished.stdout + finished.stderr[-4000:]
        return finished.stdout

    return run
