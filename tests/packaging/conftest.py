"""Builds the distributions, once for all tests."""

from collections import namedtuple

import pytest

from environments import copy_of_source, uv
from requirements_page import Recorder

Distributions = namedtuple("Distributions", ["sdist", "wheel"])

# The oldest pip; a TensorFlow that pins wrapt and much else to one minor version; the newest of all.
REPRESENTATIVE = {("1.14", "pip"), ("2.4", "uv"), ("2.22rc", "pip")}


def pytest_addoption(parser):
    parser.addoption("--bare-root", metavar="FOLDER", help="the root file system for test_containers.py; takes root")
    parser.addoption(
        "--record-requirements", action="store_true", help="write docs/requirements.md from what is measured"
    )


def pytest_configure(config):
    if config.getoption("--record-requirements"):
        config.pluginmanager.register(Recorder())


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items):
    """Mark what test_requirements.py does on the other rows: each takes a minute."""
    for item in items:
        given = item.callspec.params if hasattr(item, "callspec") else {}
        if "row" in given and (given["row"].tf, given["tool"]) not in REPRESENTATIVE:
            item.add_marker(pytest.mark.every_row)


@pytest.fixture(scope="session")
def distributions(tmp_path_factory):
    """The sdist, and the wheel built from it."""
    folder = tmp_path_factory.mktemp("distributions")
    source = copy_of_source(folder / "source")
    uv("build", "--out-dir", folder, source)
    return Distributions(next(folder.glob("*.tar.gz")), next(folder.glob("*.whl")))
