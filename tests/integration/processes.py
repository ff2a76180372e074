"""Runs a Python of its own."""

import os
import subprocess
import sys


class Finished(object):
    """What a process left behind."""

    def __init__(self, returncode, stdout, stderr):
        self.returncode, self.stdout, self.stderr = returncode, stdout, stderr


def environment(variables):
    """The environment for a process: this one's, without variables of this project, and these; None unsets one."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TFLS_PATCH")}
    environ.update(CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="3", PYTHONWARNINGS="ignore")
    environ.update({name: value for name, value in variables.items() if value is not None})
    return {name: value for name, value in environ.items() if variables.get(name, value) is not None}


def run_python(folder, *arguments, **variables):
    """Runs this interpreter in a folder.

    Args:
        folder: The folder.
        *arguments: Those of the interpreter.
        **variables: Set in the environment, and unset if None. None of this project's are inherited.

    Returns:
        What it left behind.
    """
    process = subprocess.run(
        (sys.executable,) + arguments,
        env=environment(variables),
        cwd=str(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=600,
    )
    return Finished(process.returncode, process.stdout, process.stderr)
