"""A fake TensorFlow to import, for what concerns import mechanics only."""

import os
import subprocess
import sys
import textwrap

import pytest

FAKE_LEAF = """
def _is_all_finite(grads):
    return all(grads)

class LossScale(object):
    pass

class DynamicLossScale(LossScale):
    def __init__(self, initial_loss_scale=2.0**15, increment_period=2000, multiplier=2.0):
        self._initial_loss_scale = initial_loss_scale

    def update(self, grads):
        self._current_loss_scale, self._num_good_steps, self._increment_period, self._multiplier
        return reduce, _is_all_finite(grads)

class FixedLossScale(LossScale):
    def __init__(self, loss_scale_value):
        self._loss_scale_value = loss_scale_value
"""


@pytest.fixture
def fake(tmp_path):
    """Returns a function that runs code beside a fake ``tensorflow`` 2.10 and gives ``(status, stdout, stderr)``."""
    leaf = tmp_path / "tensorflow" / "python" / "training" / "experimental"
    framework = tmp_path / "tensorflow" / "python" / "framework"
    for folder in (leaf, framework):
        folder.mkdir(parents=True)
    for folder in (leaf, leaf.parent, leaf.parent.parent, framework):
        (folder / "__init__.py").write_text("")
    (framework / "versions.py").write_text("VERSION = '2.10.1'\n")
    (leaf / "loss_scale.py").write_text(FAKE_LEAF)
    (tmp_path / "tensorflow" / "__init__.py").write_text(
        "from tensorflow.python.framework import versions\n"
        "from tensorflow.python.training.experimental import loss_scale\n"
        "__version__ = versions.VERSION\n"
    )

    def run(code, *options, **variables):
        environ = {name: value for name, value in os.environ.items() if not name.startswith("TFLS_PATCH")}
        environ["PYTHONPATH"] = os.pathsep.join([str(tmp_path)] + [path for path in sys.path if path])
        environ.update(variables)
        process = subprocess.Popen(
            (sys.executable,) + options + ("-c", textwrap.dedent(code)),
            env=environ,
            cwd=str(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )
        stdout, stderr = process.communicate(timeout=60)
        return process.returncode, stdout.strip(), stderr.strip()

    run.folder = tmp_path
    run.leaf = leaf / "loss_scale.py"
    return run
