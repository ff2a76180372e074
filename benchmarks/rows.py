"""Environments of rows of the test matrix, for benchmarks that need several TensorFlows."""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import matrix  # noqa: E402  (it is not a package that could be installed)


def add_options(parser):
    parser.add_argument("--envs", type=Path, metavar="DIR", help="environments that are there: DIR/<row>/bin/python")
    parser.add_argument("--python", metavar="PATH", help="measure with the TensorFlow of this Python alone")
    parser.add_argument("--quick", action="store_true", help="only see whether it works; writes no page unless --out")


def wanted(options, names):
    """Returns the names of the rows to measure."""
    return ["this Python"] if options.python else names


def of(row, options, folder):
    """Returns a Python with that TensorFlow, made in the folder if there is none, and the variables that it wants."""
    if options.python:
        return Path(options.python), {}
    row = matrix.row(row)
    if options.envs:
        return options.envs / row.tf / "bin" / "python", row.env
    python = folder / "tensorflow" / "bin" / "python"
    _uv("venv", "--quiet", "--python", matrix.find_interpreter(row.python), python.parent.parent)
    # With byte code, as pip leaves it: otherwise each start would compile all of TensorFlow.
    options = ["--quiet", "--compile-bytecode", "--python", python]
    _uv("pip", "install", *options, "wrapt", "packaging", row.package, *row.pins)
    return python, row.env


def environ(variables):
    """Returns this environment without what would patch, or import from elsewhere, and with these variables."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "TFLS_PATCH"))}
    return dict(kept, TF_CPP_MIN_LOG_LEVEL="3", PYTHONWARNINGS="ignore", **variables)


def software(measured):
    """Returns what a worker has reported of its TensorFlow and Keras, in words."""
    keras = "" if measured["keras"].startswith("tensorflow") else ", " + measured["keras"]
    return "TF %s%s" % (measured["tensorflow"], keras)


def _uv(*arguments):
    subprocess.run([sys.executable, "-m", "uv", *map(str, arguments)], check=True)
