"""The TensorFlow versions that this project is tested on: the one list behind nox, ``dev.py`` and the docs.

A new TensorFlow is one more row of ``ROWS``. Each row was installed and imported as it stands here on x86-64 Linux,
without a GPU; ``tensorflow-cpu`` is taken where it exists because it is the smaller download.
"""

import glob
import os
import shutil
import subprocess
from typing import Dict, List, NamedTuple, Optional

LEGACY_KERAS = {"TF_USE_LEGACY_KERAS": "1"}


class Row(NamedTuple):
    """One environment of the test matrix."""

    tf: str  # the TensorFlow minor version, and what is special about the row
    python: str
    package: str
    pins: List[str]  # what else has to be pinned before `import tensorflow` works
    keras: str  # what `tf.keras` is there
    env: Dict[str, str] = {}

    @property
    def minor(self) -> str:
        """The TensorFlow minor version alone: ``2.16`` for ``2.16+tf_keras``."""
        return self.tf.split("+")[0].replace("rc", "")


_IN_TENSORFLOW = "tensorflow.python.keras"

ROWS = [
    Row("1.14", "3.6", "tensorflow==1.14.0", ["protobuf<3.20", "numpy<1.19"], _IN_TENSORFLOW),
    Row("1.15", "3.7", "tensorflow-cpu==1.15.0", ["protobuf<3.21", "numpy<1.19"], _IN_TENSORFLOW),
    Row("2.0", "3.7", "tensorflow==2.0.4", ["protobuf<3.21"], _IN_TENSORFLOW),
    Row("2.1", "3.7", "tensorflow-cpu==2.1.4", ["protobuf<3.21"], _IN_TENSORFLOW),
    Row("2.2", "3.7", "tensorflow-cpu==2.2.3", ["protobuf<3.21"], _IN_TENSORFLOW),
    Row("2.3", "3.8", "tensorflow-cpu==2.3.4", ["protobuf<3.21"], _IN_TENSORFLOW),
    Row("2.4", "3.8", "tensorflow-cpu==2.4.4", ["protobuf<3.21"], _IN_TENSORFLOW),
    Row("2.5", "3.9", "tensorflow-cpu==2.5.3", ["protobuf<3.21"], _IN_TENSORFLOW),
    Row("2.6", "3.9", "tensorflow-cpu==2.6.5", ["protobuf<3.21"], "keras 2.6"),
    Row("2.7", "3.9", "tensorflow-cpu==2.7.4", ["protobuf<3.21", "numpy<2"], "keras 2.7"),
    Row("2.8", "3.10", "tensorflow-cpu==2.8.4", ["protobuf<3.21", "numpy<2"], "keras 2.8"),
    Row("2.9", "3.10", "tensorflow-cpu==2.9.3", ["numpy<2"], "keras 2.9"),
    Row("2.10", "3.10", "tensorflow-cpu==2.10.1", ["numpy<2"], "keras 2.10"),
    Row("2.11", "3.10", "tensorflow-cpu==2.11.1", ["numpy<2"], "keras 2.11"),
    Row("2.12", "3.11", "tensorflow-cpu==2.12.1", [], "keras 2.12"),
    Row("2.13", "3.11", "tensorflow-cpu==2.13.1", [], "keras 2.13"),
    Row("2.14", "3.11", "tensorflow-cpu==2.14.1", [], "keras 2.14"),
    Row("2.15", "3.11", "tensorflow-cpu==2.15.1", [], "keras 2.15"),
    Row("2.16", "3.12", "tensorflow-cpu==2.16.2", [], "keras 3"),
    Row("2.17", "3.12", "tensorflow-cpu==2.17.1", [], "keras 3"),
    Row("2.18", "3.12", "tensorflow-cpu==2.18.1", [], "keras 3"),
    Row("2.19", "3.12", "tensorflow-cpu==2.19.1", [], "keras 3"),
    Row("2.20", "3.13", "tensorflow-cpu==2.20.0", [], "keras 3"),
    Row("2.21", "3.12", "tensorflow-cpu==2.21.0", [], "keras 3"),
    Row("2.22rc", "3.13", "tensorflow-cpu==2.22.0rc0", [], "keras 3"),
    Row("2.16+tf_keras", "3.12", "tensorflow-cpu==2.16.2", ["tf-keras==2.16.*"], "tf_keras 2.16", LEGACY_KERAS),
    Row("2.21+tf_keras", "3.12", "tensorflow-cpu==2.21.0", ["tf-keras==2.21.*"], "tf_keras 2.21", LEGACY_KERAS),
]

# The newest TensorFlow (with tf_keras beside it) in a form that any machine can install, and the Pythons it is
# released for, newest first. tf_keras has a release for each TensorFlow and holds back one that it has none for yet;
# its lower bound keeps the solver from pairing a TensorFlow pre-release with a tf_keras that predates the pairing.
NEWEST = ["tensorflow", "tf_keras>=2.16"]
NEWEST_PYTHONS = ["3.13", "3.12", "3.11", "3.10", "3.9"]


# Rows between others of the same patch module and the same kind of Keras. What the tests mark as `thorough` is left to
# the others, and for 2.21 to the tests on the newest.
MIDDLE = ["2.2", "2.6", "2.9", "2.14", "2.17", "2.18", "2.19", "2.20", "2.21"]


def row(tf: str) -> Row:
    """Return the row of that name.

    Raises:
        KeyError: There is no such row.
    """
    return {each.tf: each for each in ROWS}[tf]


def is_first_with_its_python(tf: str) -> bool:
    """Whether no row before that one has its Python: what depends on Python alone is tested there."""
    return next(each.tf for each in ROWS if each.python == row(tf).python) == tf


def find_interpreter(version: str) -> Optional[str]:
    """Find a Python of that minor version on this machine.

    A `pythonX.Y` on PATH counts only if it runs and is what its name says: a version manager's shim may do neither.

    Args:
        version: For example ``"3.6"``.

    Returns:
        The path of the interpreter itself, or None.
    """
    for candidate in _candidates(version):
        path = _real_interpreter(candidate, version)
        if path:
            return path
    return None


def _candidates(version):
    name = "python" + version
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        found = shutil.which(name, path=folder)
        if found:
            yield found
    root = _pyenv_root()
    if root:
        yield from sorted(glob.glob(os.path.join(root, "versions", version + ".*", "bin", name)))


def _pyenv_root():
    if os.environ.get("PYENV_ROOT"):
        return os.environ["PYENV_ROOT"]
    return _output_of("pyenv", "root") if shutil.which("pyenv") else ""


def _real_interpreter(candidate, version):
    said = _output_of(candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)")
    found, _, path = said.partition(" ")
    return path if found == version else None


def _output_of(*command):
    """Return what a command prints, or an empty text if it fails."""
    try:
        output = subprocess.check_output(command, stderr=subprocess.DEVNULL, universal_newlines=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return output.strip()
