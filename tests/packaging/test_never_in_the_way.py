"""A process that cannot be patched goes on as stock, after one line on stderr; in strict mode the import fails."""

import subprocess

import pytest

from environments import Environment, clean_environ, uv
from test_start_up import NEWEST, PYTHONS

PROGRAM = """
import tensorflow
import tensorflow.python.training.experimental.loss_scale
print("went on with", tensorflow.__version__)
raise SystemExit(3)
"""


def _fake_tensorflow(site, version):
    """A package with the one module that the patch would look at; only how it is imported matters."""
    package = site / "tensorflow"
    for folder in ["", "python", "python/framework", "python/training", "python/training/experimental"]:
        (package / folder).mkdir(parents=True, exist_ok=True)
        (package / folder / "__init__.py").write_text("")
    (package / "__init__.py").write_text("from tensorflow.python.framework.versions import VERSION as __version__\n")
    (package / "python/framework/versions.py").write_text("VERSION = %r\n" % version)
    (package / "python/training/experimental/loss_scale.py").write_text("class DynamicLossScale(object): pass\n")


def _environment(distributions, folder, python, *dependencies, version="2.10.1"):
    environment = Environment(folder, python, "--without-pip")
    if dependencies:
        uv("pip", "install", "--python", environment.python, *dependencies)
    environment.install(distributions.wheel)
    [site] = environment.python.parent.parent.glob("lib/python*/site-packages")
    _fake_tensorflow(site, version)
    return environment


def _run(environment, **variables):
    return subprocess.run(
        [str(environment.python), "-c", PROGRAM],
        cwd=str(environment.python.parent),
        env=dict(clean_environ(), TFLS_PATCH="1", **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )


def _check(environment, expected):
    done = _run(environment)
    assert (done.returncode, done.stdout) == (3, "went on with %s\n" % _version(environment)), done.stderr
    [line] = done.stderr.splitlines()
    assert "TflsPatchWarning" in line and expected in line
    done = _run(environment, TFLS_PATCH_STRICT="1")
    assert done.returncode == 1 and done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("tfls_patch.errors.UnsupportedVersionError") and expected in last
    done = subprocess.run(
        [str(environment.python), "-c", PROGRAM],
        cwd=str(environment.python.parent),
        env=dict(clean_environ(), TFLS_PATCH="0", TFLS_PATCH_STRICT="1"),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert (done.returncode, done.stderr) == (3, b""), "the kill switch wins over strict mode"


def _version(environment):
    [file] = environment.python.parent.parent.glob("lib/python*/site-packages/tensorflow/python/framework/versions.py")
    return file.read_text().split("'")[1]


@pytest.mark.parametrize("python", PYTHONS)
def test_missing_dependencies(distributions, tmp_path, python):
    _check(_environment(distributions, tmp_path / "env", python), "No module named 'wrapt'")


def test_a_broken_dependency(distributions, tmp_path):
    environment = _environment(distributions, tmp_path / "env", NEWEST, "wrapt", "packaging")
    [file] = environment.python.parent.parent.glob("lib/python*/site-packages/wrapt/__init__.py")
    file.unlink()  # it may be a hard link into uv's cache
    file.write_text("raise OSError('cannot read')\n")
    _check(environment, "OSError: cannot read")


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("version", ["1.13.2", "2.10.1"])
def test_an_unknown_version_or_shape(distributions, tmp_path, python, version):
    # Without packaging, which only the doctor needs.
    environment = _environment(distributions, tmp_path / "env", python, "wrapt", version=version)
    _check(environment, "found tensorflow %s" % version)
