"""What the doctor says of an installation, on real interpreters; none of them has TensorFlow."""

import json
import subprocess

import pytest

from environments import Environment, clean_environ, interpreter, uv
from test_start_up import NEWEST, OLDEST, PYTHONS


def _doctor(python, *flags, **variables):
    """Run the doctor; return its exit status and ``{check: its first finding}``."""
    done = subprocess.run(
        [str(python), *flags, "-m", "tfls_patch", "doctor", "--json"],
        cwd=str(python.parent),
        env=dict(clean_environ(), **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    report = json.loads(done.stdout)
    assert report["healthy"] == (done.returncode == 0), done.stdout
    return done.returncode, {finding["name"]: finding for finding in reversed(report["checks"])}


@pytest.mark.parametrize("python", PYTHONS)
def test_an_install_without_dependencies_and_tensorflow_is_not_active_and_says_why(distributions, tmp_path, python):
    environment = Environment(tmp_path / "env", python, "--without-pip")
    environment.install(distributions.wheel)
    status, found = _doctor(environment.python, TFLS_PATCH="1")
    assert status == 1
    assert (found["interpreter"]["state"], found["start-up file"]["state"]) == ("ok", "ok")
    assert found["wrapt"]["advice"] == "pip install 'wrapt>=1.11.1'"
    assert found["packaging"]["advice"] == "pip install 'packaging>=20.0'"
    assert found["tensorflow"]["found"] == "not installed"


def test_the_doctor_knows_what_keeps_python_from_reading_the_file(distributions, tmp_path):
    target = tmp_path / "target"
    uv("pip", "install", "--python", interpreter(NEWEST), "--target", target, distributions.wheel)
    environment = Environment(tmp_path / "env", NEWEST, "--without-pip")
    path = {"PYTHONPATH": str(target)}
    found = _doctor(environment.python, TFLS_PATCH="1", **path)[1]["start-up file"]
    assert found["state"] == "fail" and "(PYTHONPATH, --target)" in found["found"]
    found = _doctor(environment.python, **path)[1]["start-up file"]
    assert found["state"] == "note", "without the variable the file is not needed"
    found = _doctor(environment.python, "-S", **path)[1]["start-up file"]
    assert found["found"] == "python -S reads no .pth file"
    environment.install(distributions.wheel)
    assert _doctor(environment.python, TFLS_PATCH="1")[1]["start-up file"]["state"] == "ok"
    assert _doctor(environment.python, "-I", TFLS_PATCH="1")[1]["start-up file"]["state"] == "ok"


@pytest.mark.parametrize("python", [OLDEST, NEWEST])
def test_the_doctor_knows_tensorflows_own_pins(distributions, tmp_path, python):
    environment = Environment(tmp_path / "env", python, "--without-pip")
    tools = ["setuptools", "packaging"] if python == OLDEST else ["packaging"]
    uv("pip", "install", "--python", environment.python, "wrapt==1.16.0", *tools)
    environment.install(distributions.wheel)
    [site] = environment.python.parent.parent.glob("lib/python*/site-packages")
    info = site / "tensorflow_cpu-2.15.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: tensorflow-cpu\nVersion: 2.15.1\nRequires-Dist: wrapt (<1.15,>=1.11.0)\n"
    )
    (info / "top_level.txt").write_text("tensorflow\n")
    (site / "tensorflow.py").write_text("__version__ = '2.15.1'\n")
    found = _doctor(environment.python)[1]
    assert "from tensorflow-cpu 2.15.1" in found["tensorflow"]["found"]
    assert found["pins"]["state"] == "warn" and "wrapt 1.16.0" in found["pins"]["found"]
    assert found["pins"]["advice"].startswith("pip install 'wrapt<1.15,>=1.11.0'")
