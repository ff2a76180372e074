"""Environments on real interpreters, to install the distributions into and to start.

The tests here run on the newest Python, with uv beside pytest. They never import the package: what they look at is
what other interpreters do with it.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import matrix  # noqa: E402  (it is not a package that could be installed)

# Run at the start of an interpreter: what has been imported, and how many of our import hooks there are.
LOOK = """
import json, sys
ours = {name.split(".")[0] for name in sys.modules} & {"tfls_patch", "wrapt", "packaging"}
hooks = [each for each in sys.meta_path if getattr(each, "__module__", "").startswith("tfls_patch")]
print(json.dumps({"imported": sorted(ours), "hooks": len(hooks)}))
"""


def run(*command, **options):
    """Run a command and return what it printed; fail with its output if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        **options
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def uv(*arguments):
    return run(sys.executable, "-m", "uv", *arguments)


def interpreter(version):
    """Return the path of that Python; a missing one is a failure, or a run without it would look complete."""
    path = matrix.find_interpreter(version)
    assert path, "Python %s was not found" % version
    return path


def copy_of_source(folder):
    """Copy the project, so that building leaves nothing in it and finds nothing that an earlier build left."""
    leave = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")
    shutil.copytree(str(ROOT), str(folder), ignore=leave)
    return folder


def clean_environ():
    """Return this environment without what would change how another interpreter starts."""
    env = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "TFLS_PATCH"))}
    env["PYTHONDONTWRITEBYTECODE"] = "1"  # an uninstall may not know of what the test itself left
    return env


class Environment:
    """A virtual environment of the standard library; in these, Python runs each .pth file twice."""

    def __init__(self, folder, version, *options):
        self.python = folder / "bin" / "python"
        run(interpreter(version), "-m", "venv", *options, folder)

    def install(self, *arguments):
        # The package needs none of its dependencies before TensorFlow is imported.
        uv("pip", "install", "--python", self.python, "--no-deps", *arguments)

    def uninstall(self):
        uv("pip", "uninstall", "--python", self.python, "tfls-patch")

    def leftovers(self):
        """Return the paths of whatever bears our name."""
        return sorted(self.python.parent.parent.rglob("*tfls*"))

    def start(self, value, *flags, first="", **more):
        """Start the interpreter with ``TFLS_PATCH`` set to a value, or not set if that is None.

        Args:
            value: The value.
            *flags: Options of the interpreter.
            first: Code to run before LOOK.
            **more: Other environment variables.

        Returns:
            What LOOK saw, and what was written to stderr.
        """
        env = dict(clean_environ(), **more)
        if value is not None:
            env["TFLS_PATCH"] = value
        done = subprocess.run(
            [str(self.python)] + list(flags) + ["-c", first + LOOK],
            cwd=str(self.python.parent),  # a folder without a tfls_patch in it
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr
