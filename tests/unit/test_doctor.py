"""The doctor without TensorFlow: what each check says of an environment that is not as it should be."""

import configparser
import json
import os
import sys
from argparse import Namespace

import pytest

from tfls_patch import UnsupportedVersionError, doctor
from tfls_patch.doctor import _distributions, checks, proof
from tfls_patch.doctor._distributions import Distribution
from tfls_patch.doctor._finding import fail, note, ok, warn

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in [name for name in os.environ if name.startswith("TFLS_PATCH")]:
        monkeypatch.delenv(name)


def test_the_requirements_are_those_of_the_distribution():
    setup = configparser.ConfigParser()
    setup.read(os.path.join(ROOT, "setup.cfg"))
    wanted = setup["options"]["install_requires"].split()
    assert sorted(name + specifier for name, specifier in checks.REQUIREMENTS.items()) == sorted(wanted)


def test_the_line_of_the_start_up_file_is_that_of_the_distribution():
    with open(os.path.join(ROOT, checks.PTH)) as file:
        assert file.read().strip() == checks.PTH_LINE


# --- the report ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "findings, status, last_line",
    [
        ([ok("a", "x")], 0, "healthy. Programs"),
        ([ok("a", "x"), warn("b", "y", "z"), note("c", "y")], 0, "healthy (1 to look at). Programs"),
        ([ok("a", "x"), fail("b", "y", "do z"), fail("c", "y", "z")], 1, "NOT ACTIVE: 2 of 3 checks failed"),
    ],
)
def test_the_exit_status_and_the_last_line_say_whether_it_is_healthy(monkeypatch, capsys, findings, status, last_line):
    monkeypatch.setattr(doctor, "CHECKS", [lambda: findings])
    assert doctor.run(Namespace(json=False)) == status
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith(last_line)
    assert lines[1].split() == ["ok", "a", "x"]
    if status:
        assert lines[-1].endswith("Begin with the first of them: b")
        assert any(line.strip() == "-> do z" for line in lines)


def test_what_steers_a_terminal_is_escaped():
    assert str(warn("keras", "ImportError: \x1b[31mred\x07 für", "a\rb")).splitlines() == [
        "  warn  keras          ImportError: \\x1b[31mred\\x07 für",
        "%s-> a\\rb" % (" " * 23),
    ]


def test_json_is_all_there_is_on_stdout(monkeypatch, capsys):
    def chatty():
        print("a package talks while it is imported")
        yield warn("a", "x", "z")

    monkeypatch.setattr(doctor, "CHECKS", [chatty])
    assert doctor.run(Namespace(json=True)) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["healthy"] is True
    assert report["checks"] == [{"name": "a", "state": "warn", "found": "x", "advice": "z"}]


# --- the variables ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "variables, states",
    [
        ({}, ["note"]),
        ({"TFLS_PATCH": "1"}, ["ok"]),
        ({"TFLS_PATCH": "0"}, ["fail"]),
        ({"TFLS_PATCH": "perhaps"}, ["fail"]),
        ({"TFLS_PATCH": "1", "TFLS_PATCH_MIN_SCALE": "x"}, ["ok", "warn"]),
        ({"TFLS_PATCH": "1", "TFLS_PATCH_MIN_SCALE": "4", "TFLS_PATCH_MAX_SCALE": "2"}, ["ok", "warn"]),
    ],
)
def test_the_variables_are_shown_and_judged(monkeypatch, variables, states):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    findings = list(checks.variables())
    assert [finding.state for finding in findings] == states
    for name, value in variables.items():
        assert "%s=%r" % (name, value) in findings[0].found


# --- the start-up file -----------------------------------------------------------------------------------------------


@pytest.fixture
def not_armed(monkeypatch, tmp_path):
    """Returns ``check(*there, home=None)``: what is said if a new interpreter is not armed, with files in place."""
    site = tmp_path / "site-packages"
    site.mkdir()
    monkeypatch.setattr(checks, "_starts_armed", lambda: False)
    monkeypatch.setattr(checks, "_site_folders", lambda: [str(site)])

    def check(*there, **options):
        for name, text in there:
            (site / name).write_text(text)
        home = options.get("home", site)
        monkeypatch.setattr(checks.tfls_patch, "__file__", str(home / "tfls_patch" / "__init__.py"))
        [finding] = checks.start_up_file()
        return finding

    return check


def test_a_missing_start_up_file_is_to_be_installed_again(not_armed):
    finding = not_armed()
    assert "no tfls_patch.pth in" in finding.found and "--force-reinstall" in finding.advice


def test_a_folder_that_is_no_site_directory_is_named(not_armed, tmp_path):
    (tmp_path / "tfls_patch.pth").write_text("")
    finding = not_armed(home=tmp_path)
    assert str(tmp_path) in finding.found and "PYTHONPATH, --target" in finding.found
    assert "python -m tfls_patch run" in finding.advice


def test_an_archive_is_named(not_armed, tmp_path):
    finding = not_armed(home=tmp_path / "app.pyz")
    assert "app.pyz" in finding.found and "import tfls_patch" in finding.advice


def test_a_changed_start_up_file_is_seen(not_armed):
    assert "was changed" in not_armed((checks.PTH, "import os\n")).found


def test_a_right_file_that_does_not_work_is_admitted(not_armed):
    assert "not armed" in not_armed((checks.PTH, checks.PTH_LINE + "\n")).found


@pytest.mark.parametrize("switch, state", [(None, "note"), ("0", "note"), ("1", "fail")])
def test_a_missing_file_matters_only_if_the_variable_is_on(not_armed, monkeypatch, switch, state):
    if switch is not None:
        monkeypatch.setenv("TFLS_PATCH", switch)
    assert not_armed().state == state


# --- packages --------------------------------------------------------------------------------------------------------


@pytest.fixture
def installed(monkeypatch):
    """Returns ``installed(*distributions)``, which makes them all that pip knows of."""

    def install(*distributions):
        monkeypatch.setattr(_distributions, "installed", lambda: list(distributions))

    return install


def _tensorflow(name="tensorflow-cpu", version="2.4.4", requirements=("wrapt ~=1.12.1",)):
    return Distribution(name, version, list(requirements), {"tensorflow"})


def _library(name, version):
    return Distribution(name, version, [], {name})


@pytest.mark.parametrize(
    "version, requirement, state",
    [
        ("1.12.1", "wrapt ~=1.12.1", "ok"),
        ("2.0.0", "wrapt ~=1.12.1", "warn"),
        ("1.16.0", "wrapt (<1.15,>=1.11.0)", "warn"),
        ("1.14.2", "wrapt (<1.15,>=1.11.0)", "ok"),
        ("2.0.0rc1", "wrapt>=1.11", "ok"),
        ("2.0.0", "wrapt", "ok"),
    ],
)
def test_a_pin_of_tensorflow_that_does_not_hold_is_a_warning(installed, version, requirement, state):
    installed(_tensorflow(requirements=[requirement]), _library("wrapt", version))
    [finding] = checks.pins()
    assert finding.state == state and version in finding.found
    assert (state == "warn") == ("pip install 'wrapt" in finding.advice)


def test_requirements_of_other_platforms_and_unreadable_ones_do_not_count(installed):
    elsewhere = ["wrapt<1; sys_platform == 'nowhere'", "wrapt === what?? [", "numpy"]
    installed(_tensorflow(requirements=elsewhere), _library("wrapt", "2.0"), _library("packaging", "26.0"))
    assert list(checks.pins()) == []


@pytest.fixture
def tensorflow_imports(monkeypatch, tmp_path):
    """Returns ``tensorflow_imports(error=None)``: how the import of TensorFlow ends."""

    def end(error=None):
        fake = Namespace(__file__=str(tmp_path / "tensorflow" / "__init__.py"), __version__="2.4.4")
        monkeypatch.setitem(sys.modules, "tensorflow", fake)
        monkeypatch.setattr(checks, "_import", lambda name: error)

    return end


def test_two_tensorflows_of_different_versions_in_one_folder_are_a_warning(installed, tensorflow_imports):
    tensorflow_imports()
    installed(_tensorflow(), _tensorflow("tensorflow", "2.5.0"))
    [finding] = checks.tensorflow()
    assert finding.state == "warn" and "tensorflow-cpu 2.4.4 and tensorflow 2.5.0" in finding.found
    installed(_tensorflow(), _tensorflow("tensorflow"))
    assert checks.tensorflow()[0].state == "ok"


def test_a_tensorflow_that_does_not_start_keeps_its_own_words(installed, tensorflow_imports):
    installed(_tensorflow())
    tensorflow_imports(ImportError("libcudart.so.11: cannot open\nshared object", name="libcudart"))
    [finding] = checks.tensorflow()
    assert finding.state == "fail" and "ImportError: libcudart.so.11: cannot open shared object" in finding.found
    tensorflow_imports(UnsupportedVersionError("tensorflow >=1.14", "tensorflow 1.13", "Install another."))
    assert checks.tensorflow()[0].advice == "Install another."


def test_no_tensorflow_is_not_active_unless_keras_runs_without(installed, monkeypatch):
    installed()
    absent = ImportError("No module named 'tensorflow'", name="tensorflow")
    monkeypatch.setattr(checks, "_import", lambda name: absent)
    assert checks.tensorflow()[0].state == "fail"
    monkeypatch.setattr(checks, "_import", lambda name: absent if name == "tensorflow" else None)
    assert checks.tensorflow()[0].state == "note"


# --- the proof -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scales, weight, state",
    [
        ([2.0, 1.0, 1.0], 1.0, "ok"),
        ([2.0, 1.0, 0.5], 1.0, "fail"),
        ([2.0, 1.0, float("nan")], 1.0, "fail"),
        ([2.0, 1.0, 1.0], float("nan"), "fail"),
        ([2.0, 1.0, 1.0], 0.0, "fail"),
    ],
)
def test_a_wrong_scale_or_a_touched_weight_fails(scales, weight, state):
    def drive(module, expected):
        return proof.Seen("a loss scale", scales, [2.0, 1.0, 1.0], weight)

    assert proof._tried("leaf", drive, None).state == state


def test_a_drive_that_raises_fails_and_says_where():
    def drive(module, expected):
        raise ValueError("two\nlines")

    finding = proof._tried("the.leaf", drive, None)
    assert finding.state == "fail" and finding.found == "the.leaf: ValueError: two lines"


def test_calls_are_noted_only_meanwhile():
    def called():
        pass

    def not_called():
        pass

    reached = set()
    with proof._noting_calls(reached):
        called()
    not_called()
    assert called.__code__ in reached and not_called.__code__ not in reached


def test_nothing_patched_is_not_active():
    if not proof.PATCHER.snapshot().entries:  # this process has no TensorFlow
        assert [finding.state for finding in proof.overflows()] == ["fail"]
