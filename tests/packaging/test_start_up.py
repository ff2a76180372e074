"""What an interpreter does at start-up once the package is installed, for each way to install it.

The rule is that a process which did not ask for the package pays nothing: nothing of ours is imported and nothing is
printed. One that asked has the package armed, and still neither wrapt nor packaging imported before TensorFlow is.
"""

import pytest

from environments import Environment, copy_of_source, interpreter, run, uv

PYTHONS = ["3.6", "3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13"]
OLDEST, NEWEST = PYTHONS[0], PYTHONS[-1]

NOTHING = {"imported": [], "hooks": 0}
ARMED = {"imported": ["tfls_patch"], "hooks": 1}
SWITCHED_OFF = {"imported": ["tfls_patch"], "hooks": 0}


def _check_start_up(environment):
    assert environment.start(None) == (NOTHING, "")
    assert environment.start("") == (NOTHING, "")
    assert environment.start("1") == (ARMED, "")
    assert environment.start("0") == (SWITCHED_OFF, "")


def _check_uninstall(environment):
    environment.uninstall()
    assert environment.leftovers() == []
    assert environment.start("1") == (NOTHING, "")


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("form", ["wheel", "sdist"])
def test_an_install_is_armed_by_the_variable_and_leaves_nothing_behind(distributions, tmp_path, form, python):
    environment = Environment(tmp_path / "env", python, "--without-pip")
    environment.install(getattr(distributions, form))
    _check_start_up(environment)
    _check_uninstall(environment)


@pytest.mark.parametrize("mode", ["lenient", "strict", "compat"])
def test_an_editable_install_is_armed_by_the_variable_too(tmp_path, mode):
    environment = Environment(tmp_path / "env", NEWEST, "--without-pip")
    source = copy_of_source(tmp_path / "source")
    environment.install("--config-setting", "editable_mode=" + mode, "--editable", source)
    _check_start_up(environment)
    _check_uninstall(environment)


def test_an_editable_install_by_an_old_setuptools_is_armed_by_the_variable_too(tmp_path):
    environment = Environment(tmp_path / "env", OLDEST)  # with the pip and setuptools that this Python comes with
    source = copy_of_source(tmp_path / "source")
    run(environment.python, "-m", "pip", "install", "--no-deps", "--editable", source)
    _check_start_up(environment)
    # Here pip does not know of the file: only the command that wrote it takes it away.
    run(environment.python, "setup.py", "develop", "--uninstall", cwd=str(source))
    assert environment.start("1") == (NOTHING, "")


@pytest.fixture(scope="module")
def installed(distributions, tmp_path_factory):
    """An environment of the newest Python with the wheel in it, for tests that do not change it."""
    environment = Environment(tmp_path_factory.mktemp("installed") / "env", NEWEST, "--without-pip")
    environment.install(distributions.wheel)
    return environment


@pytest.mark.parametrize("flag", ["-I", "-E", "-s"])
def test_isolated_interpreters_are_armed_too(installed, flag):
    assert installed.start("1", flag) == (ARMED, "")


def test_an_interpreter_without_site_is_left_alone(installed):
    assert installed.start("1", "-S") == (NOTHING, "")


def test_a_value_that_is_neither_on_nor_off_warns_once(installed):
    seen, stderr = installed.start("perhaps")
    assert seen == SWITCHED_OFF
    assert stderr.count("TflsPatchWarning") == 1
    assert "TFLS_PATCH='perhaps'" in stderr


def test_a_bad_bound_warns_and_does_not_stop_the_interpreter(installed):
    _, stderr = installed.start("1", TFLS_PATCH_MIN_SCALE="-1")
    assert stderr.count("TflsPatchWarning") == 1
    assert "TFLS_PATCH_MIN_SCALE" in stderr


@pytest.fixture
def user_base(tmp_path):
    """A folder for ``pip install --user`` with our dependencies in it, and how to start Python so that it is used."""
    uv("pip", "install", "--python", interpreter(NEWEST), "--target", _user_site(tmp_path), "wrapt", "packaging")
    tensorflow = tmp_path / "fake" / "tensorflow"
    tensorflow.mkdir(parents=True)
    (tensorflow / "__init__.py").write_text("")
    return {"PYTHONUSERBASE": str(tmp_path), "PYTHONPATH": str(tensorflow.parent)}


def _user_site(base):
    return base / "lib" / ("python" + NEWEST) / "site-packages"


def test_dependencies_that_cannot_be_imported_yet_at_start_up_are_found_later(distributions, tmp_path, user_base):
    # In an environment made with --system-site-packages the .pth files run before the packages of the user and of the
    # system can be imported.
    environment = Environment(tmp_path / "env", NEWEST, "--without-pip", "--system-site-packages")
    environment.install(distributions.wheel)
    assert environment.start("1", **user_base) == (ARMED, "")
    seen, stderr = environment.start("1", first="import tensorflow", **user_base)
    assert (seen["imported"], stderr) == (["tfls_patch", "wrapt"], "")


def test_a_user_install_is_armed_by_the_variable(distributions, tmp_path, user_base):
    uv("pip", "install", "--python", interpreter(NEWEST), "--no-deps", "--target", _user_site(tmp_path),
       distributions.wheel)
    environment = Environment(tmp_path / "env", NEWEST, "--without-pip", "--system-site-packages")
    assert environment.start("1", **user_base) == (ARMED, "")
    assert environment.start(None, **user_base) == (NOTHING, "")
    assert environment.start("1", "-s", **user_base) == (NOTHING, "")  # -s: without the user's packages


def test_a_wheel_built_by_the_oldest_python_works_on_the_newest(tmp_path):
    builder = Environment(tmp_path / "builder", OLDEST, "--without-pip")
    uv("pip", "install", "--python", builder.python, "setuptools", "wheel")
    source = copy_of_source(tmp_path / "source")
    run(builder.python, "setup.py", "--quiet", "bdist_wheel", "--dist-dir", tmp_path, cwd=str(source))
    environment = Environment(tmp_path / "env", NEWEST, "--without-pip")
    environment.install(next(tmp_path.glob("*.whl")))
    _check_start_up(environment)
    _check_uninstall(environment)


def test_a_package_that_cannot_be_imported_does_not_stop_the_interpreter(distributions, tmp_path):
    environment = Environment(tmp_path / "env", NEWEST, "--without-pip")
    environment.install(distributions.wheel)
    [package] = [path for path in environment.leftovers() if path.name == "tfls_patch"]
    (package / "__init__.py").unlink()  # uv links files from its cache: written in place, all later installs had this
    (package / "__init__.py").write_text("raise RuntimeError('broken')\n")
    seen, stderr = environment.start("1")
    assert seen == NOTHING
    assert "broken" in stderr
