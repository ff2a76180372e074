"""Environments on real interpreters, to install the distributions into and to start.

The tests here run on the newest Python, with uv beside pytest. They never import the package: what they look at is
what other interpreters do with it.
"""

import json
import os
import re
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


class Site:
    """A virtual environment that its own pip, or uv, installs into with all dependencies.

    Attributes:
        folder: The path of the environment.
        python: The path of its interpreter.
        tool: ``"pip"`` or ``"uv"``.
    """

    def __init__(self, folder, version, tool, cache):
        """Describe one; `create` makes it, with the pip that this Python comes with.

        Args:
            folder: Where.
            version: The Python, for example ``"3.6"``.
            tool: ``"pip"`` or ``"uv"``.
            cache: A folder for downloads, so that environments that share it fetch each file once.
        """
        self.folder, self.tool, self._version, self._cache = folder, tool, version, cache
        self.python = folder / "bin" / "python"

    def create(self):
        options = ["--without-pip"] if self.tool == "uv" else []
        run(interpreter(self._version), "-m", "venv", *options, self.folder)
        return self

    def copy(self, folder):
        """Return a copy that is made of hard links: TensorFlow is large, and installers replace files, not contents."""
        shutil.copytree(str(self.folder), str(folder), symlinks=True, copy_function=os.link)
        return Site(folder, self._version, self.tool, self._cache)

    def remove(self):
        shutil.rmtree(str(self.folder))

    def install(self, *requirements):
        """Install, and fail with what the tool said if it fails."""
        options = ["--no-compile"] if self.tool == "pip" else []  # much of the time, and no part of what is tested
        if self.tool == "pip" and self._version == "3.6":
            options.append("--prefer-binary")  # its pip knows no recent wheel of grpcio, and would compile it
        status, printed = self._run("install", *options, *requirements)
        assert status == 0, printed

    def outcome(self, *requirements):
        """Return what there would be after `install`, as `frozen` has it.

        A pip that can plan an installation without carrying it out does that: to unpack TensorFlow is most of the time.
        The other tools install.
        """
        if self.tool == "uv" or _numbers(self.version_of_tool().split()[1])[:2] < (22, 2):
            self.install(*requirements)
            return self.frozen()
        report = self.folder / "report.json"
        self.install("--dry-run", "--report", report, *requirements)
        chosen = [each["metadata"] for each in json.loads(report.read_text(encoding="utf-8"))["install"]]
        versions = dict(line.split("==") for line in self.frozen())
        versions.update((_normal(each["name"]), each["version"]) for each in chosen)
        return {"%s==%s" % each for each in versions.items()}

    def frozen(self):
        """Return what is installed, as a set of ``name==version``."""
        status, printed = self._run("freeze", *(["--all"] if self.tool == "pip" else []))
        assert status == 0, printed
        found = re.findall(r"^([\w.-]+)(==| @ )(\S+)$", printed, re.MULTILINE)
        return {"%s==%s" % (_normal(name), version) for name, _, version in found}

    def complaints(self):
        """Return what the tool says about requirements that are not met, as a set of lines."""
        status, printed = self._run("check")
        if status == 0:
            return set()
        lines = {line for line in printed.splitlines() if " requires " in line or " has requirement " in line}
        assert lines, printed
        return lines

    def version_of_tool(self):
        """Return for example ``"pip 18.1"``."""
        command = [sys.executable, "-m", "uv"] if self.tool == "uv" else [self.python, "-m", "pip"]
        return " ".join(run(*command, "--version").split()[:2])

    def _run(self, command, *arguments):
        if self.tool == "uv":
            front = [sys.executable, "-m", "uv", "pip", command, "--python", self.python]
        else:
            front = [self.python, "-m", "pip", command]
        done = subprocess.run(
            [str(part) for part in front] + [str(part) for part in arguments],
            env=self._environment(),
            cwd=str(self.folder),  # in the project's folder, pip would take a tfls_patch.egg-info for an install
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
        )
        return done.returncode, done.stdout

    def _environment(self):
        """Leave out what the machine sets for pip in a file, where uv does not look: it would decide what is chosen."""
        leave = "PIP_CONSTRAINT", "PIP_FIND_LINKS", "PIP_EXTRA_INDEX", "PIP_NO_", "UV_NO_CACHE"
        env = {name: text for name, text in clean_environ().items() if not name.startswith(leave)}
        env["PIP_CONFIG_FILE"] = os.devnull
        env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
        env["PIP_CACHE_DIR"] = str(self._cache / "pip")
        env["UV_CACHE_DIR"] = str(self._cache / "uv")
        return env


def _normal(name):
    return re.sub("[-_.]+", "-", name).lower()


def _numbers(version):
    return tuple(int(part) for part in re.findall(r"\d+", version))
