"""The command line without TensorFlow: misuse, and how scripts are run."""

import os
import subprocess
import sys

import pytest


def run(*arguments, **kwargs):
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TFLS_PATCH")}
    environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    process = subprocess.Popen(
        (sys.executable, "-m", "tfls_patch") + arguments,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        **kwargs,
    )
    stdout, stderr = process.communicate(timeout=60)
    return process.returncode, stdout, stderr


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nonsense",),
        ("run",),
        ("run", "--min-scale", "x", "a.py"),
        ("run", "--min-scale", "0", "a.py"),
        ("run", "--min-scale", "2", "--max-scale", "1", "a.py"),
        ("run", "no_such_file.py"),
        ("run", "-m"),
        ("run", "--"),
        ("run", "-x", "a.py"),
        ("run", "--min-scales", "1", "a.py"),
        ("demo", "nonsense"),
        ("demo", "hourglass", "--seeds", "0"),
    ],
)
def test_misuse_exits_with_2_and_says_why(arguments):
    status, stdout, stderr = run(*arguments)
    assert status == 2 and stderr and not stdout and "Traceback" not in stderr


def test_a_script_is_main_with_its_own_arguments_folder_and_exit_status(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, os\n"
        "assert __name__ == '__main__' and sys.modules['__main__'].__file__ == __file__\n"
        "assert os.path.samefile(sys.path[0], os.path.dirname(__file__)), sys.path[0]\n"
        "print(sys.argv[1:], os.environ['TFLS_PATCH'], os.environ['TFLS_PATCH_MIN_SCALE'])\n"
        "raise SystemExit(3)\n"
    )
    status, stdout, stderr = run("run", "--min-scale", "0.5", str(script), "--min-scale", "7", "-m", "x")
    assert (status, stdout.strip()) == (3, "['--min-scale', '7', '-m', 'x'] 1 0.5"), stderr


@pytest.mark.parametrize("command", [["-m", "mine"], ["--", "mine.py"], ["mine.py"]])
def test_modules_are_found_in_the_current_folder_and_a_double_dash_is_passed_over(tmp_path, command):
    (tmp_path / "mine.py").write_text("import sys, neighbour; print(sys.argv[1:])\n")
    (tmp_path / "neighbour.py").write_text("")
    starter = tmp_path / "elsewhere"
    starter.mkdir()
    # As the installed command does it: its own folder is the first to import from.
    (starter / "command.py").write_text("import sys; from tfls_patch.__main__ import main; sys.exit(main())\n")
    environ = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    output = subprocess.check_output(
        [sys.executable, str(starter / "command.py"), "run"] + command + ["a", "--", "-m", "c"],
        cwd=str(tmp_path),
        env=environ,
    )
    assert output.strip() == b"['a', '--', '-m', 'c']"


def test_the_script_stays_main_until_the_end(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import atexit, pickle\n"
        "class Job(object): pass\n"
        "atexit.register(lambda: print(pickle.loads(pickle.dumps(Job())).__class__ is Job))\n"
    )
    assert run("run", str(script))[:2] == (0, "True\n")


def test_an_exception_of_the_script_goes_through(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("raise KeyError('mine')\n")
    status, _, stderr = run("run", str(script))
    assert status == 1 and stderr.strip().endswith("KeyError: 'mine'")


def test_version():
    assert run("--version")[1].startswith("tfls_patch ")
