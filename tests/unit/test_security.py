"""What docs/security.md says of the code, checked against the code."""

import ast
import os
import subprocess
import sys

import pytest

import tfls_patch
from tfls_patch import _settings
from tfls_patch.doctor import checks

PACKAGE = os.path.dirname(os.path.abspath(tfls_patch.__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

#: Names that read or write files, run programs, open connections, or turn text or bytes into code or objects.
POWERS = {
    "open", "exec", "eval", "compile", "system", "popen", "execv", "execve", "spawnv", "loads", "load", "Popen",
    "check_output", "check_call", "run_path", "run_module", "urlopen",
}  # fmt: skip
POWERFUL_MODULES = {
    "subprocess", "socket", "urllib", "http", "ctypes", "pickle", "marshal", "shelve", "shutil", "tempfile", "pathlib",
    "runpy", "multiprocessing", "site", "code", "codeop", "yaml", "requests",
}  # fmt: skip
#: `run` runs the script that it is given; `doctor` reads the .pth file and starts an interpreter to see it
#: work. Nothing else in the package has any of it, the demonstration aside.
EXPECTED = {
    "_run.py": {"open", "compile", "exec", "runpy", "run_path", "run_module"},
    "doctor/checks.py": {"open", "subprocess", "check_output", "site"},
}


def _sources():
    for folder, folders, files in os.walk(PACKAGE):
        if folder == PACKAGE:
            folders[:] = [each for each in folders if each != "demo"]
        for name in files:
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    yield os.path.relpath(path, PACKAGE).replace(os.sep, "/"), ast.parse(file.read(), path)


def _powers(tree):
    """Returns the calls and imports in a source that could reach beyond the process."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", None))
            found |= {name} & POWERS
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names} & POWERFUL_MODULES
        elif isinstance(node, ast.ImportFrom):
            found |= {(node.module or "").split(".")[0]} & POWERFUL_MODULES
    return found


def test_only_run_and_doctor_open_or_execute_anything():
    found = {name: _powers(tree) for name, tree in _sources()}
    assert len(found) > 20 and "_settings.py" in found
    assert {name: powers for name, powers in found.items() if powers} == EXPECTED


def test_variables_are_read_in_one_place():
    readers = set()
    for name, tree in _sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv"):
                readers.add(name)
    # The command line sets TF_CPP_MIN_LOG_LEVEL before TensorFlow is imported; doctor shows variables of TensorFlow.
    assert readers == {"_settings.py", "__main__.py", "doctor/checks.py"}


def test_what_imports_by_a_computed_name_takes_it_from_a_table_of_ours_or_from_the_caller():
    files = set()
    for name, tree in _sources():
        for node in ast.walk(tree):
            called = getattr(node.func, "attr", getattr(node.func, "id", None)) if isinstance(node, ast.Call) else None
            if called in ("import_module", "__import__"):
                files.add(name)
    # Literal names, keys of LEAVES and module names in TABLE.
    assert files == {
        "__main__.py",
        "_activation.py",
        "_diagnosis.py",
        "_registry.py",
        "_skips.py",
        "_xla.py",
        "patches/_keras_3_optimizer.py",
        "doctor/checks.py",
        "doctor/proof.py",
    }


def test_the_page_shows_the_line_of_the_pth_file_and_what_runs_is_that_line():
    with open(os.path.join(ROOT, "tfls_patch.pth"), "rb") as file:
        line = file.read().decode("ascii")
    assert line == checks.PTH_LINE + "\n" and line.count("\n") == 1
    for page in ("docs/security.md", "README.md"):
        with open(os.path.join(ROOT, page), encoding="utf-8") as file:
            assert "```python\n%s```\n" % line in file.read(), page


def start(code, folder, *options, **variables):
    """Runs code in a fresh interpreter and returns ``(status, stdout, stderr)``."""
    kwargs = variables.pop("kwargs", {"stderr": subprocess.PIPE})
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TFLS_PATCH")}
    environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    environ.update(variables)
    process = subprocess.Popen(
        (sys.executable,) + options + ("-c", code), env=environ, cwd=str(folder), stdout=subprocess.PIPE, **kwargs
    )
    stdout, stderr = process.communicate(timeout=60)
    return process.returncode, stdout.decode().strip(), (stderr or b"").decode()


@pytest.mark.parametrize("options", [(), ("-W", "error")])
@pytest.mark.parametrize("name", _settings.VARIABLES)
def test_a_terminal_gets_no_command_from_a_variable(tmp_path, name, options):
    text = "\x1b[2J\x1b]0;title\x07\x9b31m\r\n\u202eforged: line\x7f"
    status, _, stderr = start("import tfls_patch", tmp_path, *options, **{name: text})
    assert status == 0 and name in stderr
    [line, end] = stderr.split("\n")
    assert line.isprintable() and not end and all(ord(character) < 127 for character in line)


def test_a_warning_prints_no_line_of_a_file_that_bears_our_name(tmp_path):
    (tmp_path / "tfls_patch").write_text("secret\n")
    status, _, stderr = start("import tfls_patch", tmp_path, TFLS_PATCH="perhaps")
    assert status == 0 and "perhaps" in stderr and "secret" not in stderr


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize("options", ["", "-W error"])
def test_a_complaint_that_cannot_be_written_does_not_stop_the_import(tmp_path, stderr, options):
    code = "import tfls_patch; print(tfls_patch.status().enabled)"
    environ = dict(os.environ, TFLS_PATCH="perhaps", PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    command = "'%s' %s -c '%s' %s" % (sys.executable, options, code, stderr)
    assert subprocess.check_output(command, shell=True, env=environ, cwd=str(tmp_path)).strip() == b"False"


def test_only_spaces_in_the_variable_do_not_switch_it_on(tmp_path):
    status, stdout, stderr = start("import tfls_patch; print(tfls_patch.status().enabled)", tmp_path, TFLS_PATCH=" ")
    assert (status, stdout) == (0, "False") and "TFLS_PATCH=' '" in stderr
