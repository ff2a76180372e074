"""``tfls-patch==X.Y.Z`` beside any TensorFlow pin: it installs in every order, and moves nothing of TensorFlow's.

Each row of the matrix is installed for real, by the pip that its Python comes with and by uv, and compared with the
same TensorFlow installed alone. A few of them run in the session ``packaging`` (see conftest.py); the session
``requirements`` runs all and writes ``docs/requirements.md``.
"""

import hashlib
import os
import shutil
import tempfile
from collections import namedtuple
from pathlib import Path

import pytest

from environments import Site, clean_environ, matrix, run, uv

# What may come along with our package. The last two are what old versions of packaging need.
COMPANIONS = {"tfls-patch", "packaging", "pyparsing", "six"}

PATCHED = """
import tfls_patch, tensorflow
from tensorflow.python.training.experimental.loss_scale import DynamicLossScale
assert tfls_patch.status().patched, tfls_patch.status()
assert DynamicLossScale.update.__globals__["__name__"].startswith("tfls_patch"), DynamicLossScale.update
"""

Stock = namedtuple("Stock", ["site", "frozen", "complaints"])


@pytest.fixture(scope="module", params=matrix.ROWS, ids=lambda row: row.tf)
def row(request):
    """A row of the matrix."""
    return request.param


@pytest.fixture(scope="module")
def shelf(row):
    """A folder for all environments of a row, with the downloads that they share; TensorFlow is fetched once.

    In memory if there is room: a TensorFlow has more than ten thousand files, and most of the time is for them.
    """
    memory = "/dev/shm"
    roomy = os.path.isdir(memory) and shutil.disk_usage(memory).free > 8e9
    with tempfile.TemporaryDirectory(prefix="requirements_", dir=memory if roomy else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="module", params=["pip", "uv"])
def tool(request):
    """What installs."""
    return request.param


@pytest.fixture(scope="module")
def blank(row, shelf, tool):
    """An environment with nothing in it, to be copied."""
    return Site(shelf / (tool + "-blank"), row.python, tool, shelf / "cache").create()


@pytest.fixture(scope="module")
def stock(row, shelf, tool, blank):
    """The row's TensorFlow alone."""
    site = blank.copy(shelf / (tool + "-stock"))
    site.install(row.package, *row.pins)
    yield Stock(site, site.frozen(), site.complaints())
    site.remove()


@pytest.fixture(scope="module")
def after(shelf, tool, stock, ours):
    """The row's TensorFlow, and then our package."""
    site = stock.site.copy(shelf / (tool + "-after"))
    site.install(*ours)
    yield site
    site.remove()


@pytest.fixture
def empty(shelf, tool, blank):
    """An environment with nothing in it."""
    site = blank.copy(shelf / (tool + "-empty"))
    yield site
    site.remove()


@pytest.fixture(scope="module")
def ours(distributions):
    """What to give an installer to get our package: the pin, and where to find it."""
    return ["--find-links", str(distributions.wheel.parent), _pin(distributions)]


@pytest.fixture
def record(record_property, row, stock):
    """Returns ``record(name, value)`` for the page, which is told here which line the test is about."""
    record_property("row", row.tf)
    record_property("tool", stock.site.version_of_tool())
    record_property("python", run(stock.site.python, "--version").split()[1])
    return record_property


def test_ours_after_tensorflow_moves_nothing(after, stock, record):
    frozen = after.frozen()
    assert stock.frozen - frozen == set()
    added = frozen - stock.frozen
    assert "tfls-patch" in _names(added) and _names(added) <= COMPANIONS
    assert after.complaints() == stock.complaints
    record("added", ", ".join(sorted(line.replace("==", " ") for line in added if not line.startswith("tfls-patch"))))


# What a check would complain of depends on what is installed only, so where that is the same, it was checked above.


def test_ours_before_tensorflow_gives_the_same(row, empty, after, ours, record):
    empty.install(*ours)
    assert empty.outcome(row.package, *row.pins) == after.frozen()


def test_one_requirements_file_gives_the_same(row, tmp_path, empty, after, distributions, record):
    file = tmp_path / "requirements.txt"
    file.write_text("\n".join([row.package] + row.pins + [_pin(distributions)]) + "\n")
    outcome = empty.outcome("--find-links", distributions.wheel.parent, "--requirement", file)
    assert outcome == after.frozen()


def test_pins_with_hashes_give_the_same(tmp_path, empty, after, distributions, record):
    frozen = after.frozen()
    wanted = {line for line in frozen if not line.startswith(("pip==", "tfls-patch=="))}
    file = _with_hashes(tmp_path, wanted, after)
    digest = hashlib.sha256(distributions.wheel.read_bytes()).hexdigest()
    file.write_text("%s%s --hash=sha256:%s\n" % (file.read_text(), _pin(distributions), digest))
    links = ["--find-links", distributions.wheel.parent]
    assert empty.outcome("--require-hashes", *links, "--requirement", file) == frozen


@pytest.mark.parametrize("tool", ["pip"], indirect=True)
def test_no_deps_is_enough_where_tensorflow_brings_the_rest(row, shelf, stock, after, ours, record):
    brings = {"wrapt", "packaging"} <= _names(stock.frozen)
    # packaging is a requirement from 2.9 on. 2.5 to 2.8 have it by way of wheel, on the Pythons of their rows.
    assert brings == (_numbers(row.minor) >= (2, 5))
    site = stock.site.copy(shelf / "no-deps")
    site.install("--no-deps", *ours)
    assert (site.complaints() == stock.complaints) == brings
    _start(site, row, PATCHED)  # also where packaging is missing, which only the doctor needs
    site.remove()
    record("no_deps", "yes" if brings else "no")


def _pin(distributions):
    return "tfls-patch==" + distributions.wheel.name.split("-")[1]


def _with_hashes(folder, wanted, site):
    """Write a requirements file with the hashes of all that is wanted, as the index has them, and return its path."""
    plain, hashed = folder / "plain.txt", folder / "hashed.txt"
    plain.write_text("\n".join(sorted(wanted)) + "\n")
    options = ["--quiet", "--no-deps", "--no-header", "--no-annotate", "--generate-hashes", "--python", site.python]
    uv("pip", "compile", *options, "--output-file", hashed, plain)
    return hashed


def _start(site, row, code):
    """Run code in the environment and return what it printed."""
    env = dict(clean_environ(), CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="3", **row.env)
    return run(site.python, "-c", code, env=env, cwd=str(site.folder))


def _names(frozen):
    return {line.split("==")[0] for line in frozen}


def _numbers(version):
    return tuple(int(part) for part in version.split("."))
