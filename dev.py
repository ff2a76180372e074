"""Run the demonstration and the tests on a machine that has only Python (3.8 or newer) and pip.

    python3 dev.py demo                      see a stuck float16 training, and the same patched
    python3 dev.py demo hourglass            the same with a convolutional network, and with what is done without it
    python3 dev.py test                      all tests, on the newest TensorFlow
    python3 dev.py matrix [ROW ...]          all tests, on each TensorFlow of tests/matrix.py (or on these)
    python3 dev.py lint
    python3 dev.py packaging
    python3 dev.py requirements              our pin beside the pin of every TensorFlow; writes docs/requirements.md
    python3 dev.py nox ARGUMENT ...          nox itself

The tools (nox and uv) go into .tools/ and the environments into .nox/, both in this folder. Nothing else on the
machine is changed. More words after demo, test, packaging and requirements go to the demonstration or to pytest.
"""

import argparse
import os
import re
import runpy
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent
LOGS = ROOT / ".matrix-logs"
TOOLS = ["nox>=2024.10.9", "uv>=0.5"]
# One folder for each Python, because the tools need other dependencies on each.
TOOLS_FOLDER = ROOT / ".tools" / ("%d.%d" % sys.version_info[:2])
SESSIONS = {"demo": "demo", "test": "tests", "lint": "lint", "packaging": "packaging", "requirements": "requirements"}
CLOSING_LINE = re.compile(r"^=+ (?P<counts>.*\b\d+ \w+.*) in (?P<seconds>[\d.]+)s.* =+$", re.MULTILINE)


def main(arguments):
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if arguments else 2
    command, rest = arguments[0], arguments[1:]
    if command != "nox" and command != "matrix" and command not in SESSIONS:
        print("dev.py: no command %r\n\n%s" % (command, __doc__), file=sys.stderr)
        return 2
    _install_tools()
    if command == "matrix":
        return run_matrix(rest)
    return run_nox(rest if command == "nox" else ["-s", SESSIONS[command], "--"] + rest)


def _install_tools():
    """Install nox and uv, once.

    With ``--target`` because that needs no venv module, and is allowed where a distribution manages its Python.
    """
    done = TOOLS_FOLDER / "installed.txt"
    if done.exists() and done.read_text() == "\n".join(TOOLS):
        return
    shutil.rmtree(str(TOOLS_FOLDER), ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # A user's own pip settings that contradict --target.
    env = dict(os.environ, PIP_USER="0", PIP_REQUIRE_VIRTUALENV="0", PIP_ROOT_USER_ACTION="ignore")
    if subprocess.call(pip + ["--target", str(TOOLS_FOLDER)] + TOOLS, env=env) != 0:
        sys.exit("dev.py: pip could not install %s" % " and ".join(TOOLS))
    done.write_text("\n".join(TOOLS))


def run_nox(arguments):
    """Run nox in this process, from the tools folder.

    In this process because the folder is then on this ``sys.path`` only. In PYTHONPATH it would be on the path of
    everything that nox runs, and the tests would find the packages of the tools before their own.
    """
    sys.path.insert(0, str(TOOLS_FOLDER))
    os.environ["PATH"] = os.pathsep.join([str(TOOLS_FOLDER / "bin"), os.environ.get("PATH", "")])
    os.environ.setdefault("UV_HTTP_TIMEOUT", "300")  # TensorFlow is large, and not every line is fast
    os.chdir(str(ROOT))
    sys.argv = ["nox"] + arguments
    runpy.run_module("nox", run_name="__main__", alter_sys=True)


def run_matrix(arguments):
    """Run the tests on rows of the matrix, some at a time, with one line of output for each.

    Returns:
        The exit status: 0 if tests ran and passed on every one of the rows.
    """
    sys.path.insert(0, str(ROOT / "tests"))
    import matrix

    parser = argparse.ArgumentParser(prog="dev.py matrix")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="a name such as 2.4; all of them if left out")
    parser.add_argument("--jobs", type=int, default=3, help="how many at a time; they wait a lot (default: 3)")
    options = parser.parse_args(arguments)
    names = [row.tf for row in matrix.ROWS]
    unknown = sorted(set(options.rows) - set(names))
    if unknown:
        parser.error("no row %s; there are %s" % (", ".join(unknown), " ".join(names)))
    names = options.rows or names

    shutil.rmtree(str(LOGS), ignore_errors=True)
    LOGS.mkdir()
    wheel = _build_wheel()
    failed = []
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = {pool.submit(_run_row, name, wheel): matrix.row(name) for name in names}
        for run in as_completed(runs):
            row, (passed, said) = runs[run], run.result()
            print("tf %-14s python %-5s %s" % (row.tf, row.python, said), flush=True)
            if not passed:
                failed.append(row.tf)
    if failed:
        print("%d of %d versions FAILED: %s" % (len(failed), len(names), " ".join(failed)))
        return 1
    print("all %d versions passed" % len(names))
    return 0


def _build_wheel():
    """Build the wheel that all rows test, and return its path."""
    folder = LOGS / "dist"
    log = LOGS / "wheel.log"
    if _nox_to_log(["-s", "wheel", "--", str(folder)], log) != 0:
        sys.exit("dev.py: the wheel could not be built\n" + _tail(log.read_text()))
    return next(folder.glob("*.whl"))


def _run_row(name, wheel):
    """Run one row, and return whether it passed and what to print about it."""
    log = LOGS / ("tf-%s.log" % name)
    start = time.time()
    status = _nox_to_log(["-s", "matrix(tf='%s')" % name], log, TEST_WHEEL=str(wheel), PYTEST_ADDOPTS="--color=no")
    text = log.read_text(errors="replace")
    took = "in %.0f s" % (time.time() - start)
    closing = CLOSING_LINE.findall(text)
    counts = closing[-1][0] if closing else "no test ran"
    # A run whose tests were all skipped is one that tested nothing.
    passed = status == 0 and re.search(r"\b[1-9]\d* passed", counts) is not None
    if passed:
        return True, "%s %s" % (counts, took)
    return False, "FAIL: %s %s; the end of %s:\n%s" % (counts, took, log.relative_to(ROOT), _tail(text))


def _nox_to_log(arguments, log, **env):
    command = [sys.executable, str(ROOT / "dev.py"), "nox"] + arguments
    with log.open("w") as file:
        return subprocess.call(command, env=dict(os.environ, **env), stdout=file, stderr=subprocess.STDOUT)


def _tail(text):
    return "\n".join("    " + line for line in text.splitlines()[-25:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
