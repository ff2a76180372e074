"""Runs a Python of its own."""

import os
import subprocess
import sys


class Finished(object):
    """What a process left behind."""

    def __init__(self, returncode, stdout, stderr):
        self.returncode, self.stdout, self.stderr = returncode, stdout, stderr


def run_python(folder, *arguments, **variables):
    """Runs this interpreter in a folder.

    Args:
        folder: The folder.
        *arguments: Those of the interpreter.
        **variables: Set in the environment, and unset if None. None of this project's are inherited.

    Returns:
        What it left behind.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TFLS_PATCH")}
    environ.update(CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="3", PYTHONWARNINGS="ignore")
    for name, value in variables.items():
        environ.pop(name, None)
        if value is not None:
            environ[name] = value
    process = subprocess.run(
        (sys.executable,) + arguments,
        env=environ,
        cwd=str(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=600,
    )
    return Finished(process.returncode, process.stdout, process.stderr)
