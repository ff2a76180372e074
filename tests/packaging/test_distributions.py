"""What is in the wheel and in the sdist."""

import email
import tarfile
import zipfile

import pytest

from environments import ROOT


@pytest.fixture(scope="module")
def wheel(distributions):
    with zipfile.ZipFile(str(distributions.wheel)) as archive:
        yield archive


def _dist_info(wheel, name):
    path = next(each for each in wheel.namelist() if each.endswith(".dist-info/" + name))
    return wheel.read(path).decode("utf-8")


def test_the_wheel_fits_every_python_and_platform(distributions, wheel):
    assert distributions.wheel.name.endswith("-py3-none-any.whl")
    assert "Root-Is-Purelib: true" in _dist_info(wheel, "WHEEL")


def test_the_wheel_holds_the_package_and_the_pth_file_and_nothing_else(wheel):
    top = {name.split("/")[0] for name in wheel.namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"tfls_patch", "tfls_patch.pth"}


def test_the_wheel_holds_every_file_of_the_package(wheel):
    wanted = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tfls_patch").rglob("*.py")}
    assert (wanted | {"tfls_patch/py.typed"}) <= set(wheel.namelist())


def test_the_record_lists_the_pth_file_so_that_it_is_uninstalled(wheel):
    assert any(line.startswith("tfls_patch.pth,") for line in _dist_info(wheel, "RECORD").splitlines())


def test_the_pth_file_is_one_ascii_line_that_looks_at_the_environment_before_it_imports(wheel):
    text = wheel.read("tfls_patch.pth").decode("ascii")
    assert text == 'import os; os.environ.get("TFLS_PATCH") and __import__("tfls_patch")\n'


def test_the_requirements_are_wrapt_and_packaging_only(wheel):
    metadata = email.message_from_string(_dist_info(wheel, "METADATA"))
    requirements = [each for each in metadata.get_all("Requires-Dist") if "extra ==" not in each]
    assert sorted(requirements) == ["packaging>=20.0", "wrapt>=1.11.1"]
    assert metadata["Requires-Python"] == ">=3.6"


def test_no_extra_names_tensorflow(wheel):
    assert "Requires-Dist: tensorflow" not in _dist_info(wheel, "METADATA")


def test_the_version_is_the_one_in_the_package(wheel):
    metadata = email.message_from_string(_dist_info(wheel, "METADATA"))
    assert '__version__ = "%s"' % metadata["Version"] in wheel.read("tfls_patch/_version.py").decode("utf-8")


def test_the_command_is_installed(wheel):
    assert "tfls-patch = tfls_patch.__main__:main" in _dist_info(wheel, "entry_points.txt")


def test_the_sdist_holds_what_building_and_testing_need(distributions):
    with tarfile.open(str(distributions.sdist)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"setup.py", "setup.cfg", "tfls_patch.pth", "LICENSE", "README.md", "CHANGELOG.md"}
    assert wanted | {"noxfile.py", "dev.py", "tests/matrix.py"} <= names
