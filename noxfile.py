"""Test sessions. ``dev.py`` runs them on a machine that has only Python and pip.

    nox -s tests                    unit, contract and integration tests on the newest TensorFlow
    nox -s "matrix(tf='2.4')"       what depends on the version, on a row of tests/matrix.py; `nox -s matrix`: on all
    nox -s "keras(version='3.6.0')" what concerns Keras 3, on an older Keras 3; `nox -s keras`: on all of them
    nox -s torch                    Keras 3 on torch
    nox -s wide                     import hooks and the rule with an old, a middle and the newest wrapt. This, keras
                                    and torch write a line each of docs/wide-matrix.md
    nox -s "distributed(tf='2.15')" strategies, several workers and long runs on one row; `nox -s distributed`: on all,
                                    in about two hours; writes the tables of docs/distributed.md
    nox -s horovod                  two workers joined by Horovod, which takes five minutes, cmake and a C++ compiler
    nox -s demo                     the demonstration; nox -s demo -- hourglass: the other one
    nox -s lint
    nox -s packaging
    nox -s containers               docs/containers.md in a bare Debian: takes root and debootstrap
    nox -s benchmarks               measure, and write the pages in docs/ that say what was measured; one of them:
                                    nox -s "benchmarks(script='start_up')"; with -- --quick: see whether it works
    nox -s node_counts              count the nodes of train steps, and write docs/node-counts.md
    nox -s files                    see what each kind of file keeps, within and across versions; writes docs/files.md
    nox -s mutation                 see which faults in the patch modules the tests find, and write docs/mutation.md
    nox -s requirements             our pin beside the TensorFlow pin of every row; writes docs/requirements.md

All tests run against a wheel in a folder that has no ``tfls_patch`` of its own, so it is the wheel that is tested.
What follows ``--`` goes to pytest, or to the demo.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tests"))

import matrix as table  # noqa: E402  (these are no packages that could be installed)
import wide_page  # noqa: E402

SUITES = ["tests/unit", "tests/contract", "tests/integration"]
TEST_TOOLS = ["pytest", "hypothesis"]
# With these, programs start processes; the tests see whether the variables reach them.
CHILD_TOOLS = ["ipykernel", "jupyter_client", "pytest-xdist"]
# The wheel to test, if dev.py has built one for several runs of nox.
WHEEL = "TEST_WHEEL"

nox.needs_version = ">=2024.10.9"
nox.options.sessions = ["lint", "tests"]
nox.options.default_venv_backend = "uv"
nox.options.error_on_missing_interpreters = True


def _python_of_newest():
    """Choose the Python for the newest TensorFlow: the one in use if there is a TensorFlow for it."""
    if "%d.%d" % sys.version_info[:2] in table.NEWEST_PYTHONS:
        return None  # nox takes its own
    found = filter(None, map(table.find_interpreter, table.NEWEST_PYTHONS))
    # None on the machine: uv can fetch one.
    return next(found, table.NEWEST_PYTHONS[0])


@nox.session(python=_python_of_newest())
def tests(session):
    """Run all tests on the newest TensorFlow, with tf_keras and JAX beside it."""
    python = _python_of(session)
    _install(session, python, *table.NEWEST, "jax")  # Keras 3 runs on it too
    _run_suites(session, python, Path(session.create_tmp()), env={}, tools=TEST_TOOLS + CHILD_TOOLS)


@nox.session(venv_backend="none")
@nox.parametrize("tf", [row.tf for row in table.ROWS])
def matrix(session, tf):
    """Run what depends on the version on one row of the matrix."""
    options = ["-m", "not once and not thorough"] if tf in table.MIDDLE else []
    _run_row(session, table.row(tf), "row-" + tf, *options)


@nox.session(venv_backend="none")
@nox.parametrize("version", ["3.0.5", "3.3.3", "3.6.0", "3.10.0", "3.12.0"])
def keras(session, version):
    """Run what concerns Keras 3 on an older Keras 3, with the oldest TensorFlow that takes it and JAX."""
    jax = "jax<0.4.36" if version in ("3.0.5", "3.3.3", "3.6.0") else "jax"  # the newest that their trainer runs on
    row = table.row("2.16")
    row = row._replace(pins=row.pins + ["keras==" + version])
    # Keras 3.0 - 3.3 do not reduce gradients over replicas in a custom loop, so there is nothing to agree on.
    options = ["-m", "not once or jax", "-k", "not replicas"]
    _run_row(*(session, row, "keras-" + version, *options), extra=[jax], record_as="keras(version='%s')" % version)


# wrapt 1.11 and 1.12 cannot be imported by Python 3.11 and newer. 2.4 and 2.15 pin a wrapt that is older than the last.
WRAPTS = [("1.15", "1.11.1"), ("1.15", "1.14.*"), ("1.15", "newest")]
WRAPTS += [("2.10", "1.11.1"), ("2.10", "1.14.*"), ("2.10", "newest")]
WRAPTS += [("2.22rc", "1.14.0"), ("2.22rc", "1.14.*"), ("2.22rc", "newest")]
WRAPTS += [("2.4", "newest"), ("2.15", "newest")]


@nox.session(venv_backend="none")
@nox.parametrize("tf, wrapt", WRAPTS)
def wide(session, tf, wrapt):
    """Run what depends on wrapt, and the rule, with a wrapt that TensorFlow would not bring along."""
    name = "wide-%s-%s" % (tf, wrapt.replace("*", "x"))
    override = ROOT / ".nox" / (name + ".txt")
    override.parent.mkdir(exist_ok=True)
    override.write_text("wrapt" if wrapt == "newest" else "wrapt==" + wrapt)  # wins over what TensorFlow requires
    suites = ["tests/unit/test_activation.py", "tests/unit/test_import_mechanics.py", "tests/contract"]
    suites += ["tests/integration/test_scenarios.py"]
    wanted = ["--override", str(override), override.read_text()]
    line = "wide(tf='%s', wrapt='%s')" % (tf, wrapt)
    try:
        # These are what touches wrapt, and the rule; the rest is as it is on every row of the matrix.
        chosen = "rule or revert or whatever_is_imported_first or refused or nothing_is_said or test_activation"
        chosen += " or test_import_mechanics or test_patch_modules"
        _run_row(session, table.row(tf), name, "-k", chosen, extra=wanted, suites=suites, record_as=line)
    finally:
        override.unlink()


@nox.session(venv_backend="none")
@nox.parametrize("tf", [row.tf for row in table.ROWS])
def distributed(session, tf):
    """Run strategies, workers in processes of their own and long runs on one row, and write down what was found."""
    found = str(Path(session.create_tmp()).resolve() / "found.json")
    _run_row(session, table.row(tf), "distributed-" + tf, "--record-distributed", found, suites=["tests/distributed"])
    session.run("python", str(ROOT / "docs" / "make_distributed.py"), "--add", tf, found, external=True)


@nox.session(python="3.10")
def horovod(session):
    """Build Horovod for the last TensorFlow that it was released for, and run two workers."""
    python, row = _python_of(session), table.row("2.10")
    _install(session, python, row.package, *row.pins, "setuptools<70", "wheel", "cmake<3.28", "cloudpickle", "psutil")
    build = {"HOROVOD_WITH_TENSORFLOW": "1", "HOROVOD_WITHOUT_PYTORCH": "1", "HOROVOD_WITHOUT_MXNET": "1"}
    build.update(HOROVOD_WITH_GLOO="1", HOROVOD_WITHOUT_MPI="1", HOROVOD_CPU_OPERATIONS="GLOO")
    session.run(
        *("uv", "pip", "install", "--python", python, "--no-build-isolation", "horovod==0.28.1"),
        env={**build, "PATH": os.pathsep.join([str(session.bin), os.environ["PATH"]])},
        external=True,
    )
    _run_suites(session, python, Path(session.create_tmp()), env={}, suites=["tests/distributed/test_horovod.py"])


def _environment_of_row(session, row, folder, *extra):
    """Install a row into a folder, and return its Python."""
    interpreter = table.find_interpreter(row.python)
    if interpreter is None:
        session.error("Python %s, which TensorFlow %s needs here, was not found" % (row.python, row.tf))
    session.run("uv", "venv", "--quiet", "--clear", "--python", interpreter, str(folder / "env"), external=True)
    python = str(folder / "env" / "bin" / "python")
    _install(session, python, row.package, *row.pins, *extra)
    return python


def _run_row(session, row, name, *options, extra=(), suites=None, record_as=None):
    """Run the suites, without what needs to run only once, in an environment that is removed afterwards.

    With `record_as`, what came of it is the line of that name in docs/wide-matrix.md.
    """
    folder = ROOT / ".nox" / name
    try:
        python = _environment_of_row(session, row, folder, *extra)
        # The unit tests depend on Python, not on TensorFlow.
        suites = suites or (SUITES if table.is_first_with_its_python(row.tf) else SUITES[1:])
        report = folder / "report.xml"
        try:
            options = ("-m", "not once", "--junitxml", str(report)) + options
            _run_suites(session, python, folder, row.env, *options, suites=suites)
        finally:
            if record_as:
                wide_page.record(record_as, python, wide_page.counts_of(report))
    finally:
        shutil.rmtree(str(folder), ignore_errors=True)


@nox.session(python=_python_of_newest())
def torch(session):
    """Run Keras 3 on torch, which is too large a download for every run of the tests."""
    python = _python_of(session)
    _install(session, python, "keras", "torch", _wheel(session))
    tree = _tree_without_package(Path(session.create_tmp()) / "tree")
    scenario = tree / "tests" / "integration" / "scenarios" / "keras_3_backend.py"
    counts = (0, 1, 0)
    try:
        session.run("python", str(scenario), "torch", env=_environment({}))
        counts = (1, 0, 0)
    finally:
        wide_page.record("torch", python, counts)


@nox.session(python=_python_of_newest())
def demo(session):
    """Run the demonstration on the newest TensorFlow, with tf_keras beside it."""
    python = _python_of(session)
    _install(session, python, *table.NEWEST, "%s[demo]" % _wheel(session))
    session.run("python", "-m", "tfls_patch", "demo", *session.posargs, env=_environment({}))


@nox.session
def lint(session):
    """Check the style, and the syntax with the oldest Python that has to read it."""
    session.install("flake8")
    session.run("flake8")
    session.run("python", "docs/make_supported_versions.py", "--check")
    session.run("python", "docs/make_distributed.py", "--check")
    oldest = table.find_interpreter("3.6")
    if oldest is None:
        session.error("Python 3.6 was not found")
    files = [ROOT / "setup.py"]
    for folder in ["tfls_patch", "tests/distributed"] + SUITES:
        files += sorted((ROOT / folder).rglob("*.py"))
    check = "import sys\nfor f in sys.argv[1:]: compile(open(f, encoding='utf-8').read(), f, 'exec')"
    session.run(oldest, "-c", check, *map(str, files), external=True, log=False)


@nox.session
def packaging(session):
    """Build the distributions, install them into real interpreters and see what start-up does."""
    session.install(*TEST_TOOLS, "uv", "pyyaml")
    session.run("pytest", "-m", "not every_row", *(session.posargs or ["tests/packaging"]))


@nox.session
def requirements(session):
    """Install our pin beside the TensorFlow pin of each row, and write down what came of it."""
    session.install(*TEST_TOOLS, "uv")
    session.run("pytest", "tests/packaging/test_requirements.py", "--record-requirements", *session.posargs)


@nox.session
def containers(session):
    """Carry out the lines of docs/containers.md in a bare Debian, made by debootstrap. Takes root, on Linux."""
    session.install(*TEST_TOOLS, "uv", "pyyaml")
    with tempfile.TemporaryDirectory(prefix="bare_root_") as folder:
        root = os.path.join(folder, "debian")  # the temporary folder itself is closed to other users
        options = ["--variant=minbase", "--include=python3,python3-venv"]
        session.run("debootstrap", *options, "bookworm", root, external=True, silent=True)
        session.run("pytest", "tests/packaging/test_containers.py", "--bare-root", root, *session.posargs)


BENCHMARKS = ["start_up", "import_time", "speed", "alternatives", "hourglass", "recovery", "underflow", "update"]


@nox.session(python=_python_of_newest())
@nox.parametrize("script", BENCHMARKS)
def benchmarks(session, script):
    """Run a script of benchmarks/, which writes its page in docs/; what follows ``--`` are its options."""
    path, python = str(ROOT / "benchmarks" / (script + ".py")), _python_of(session)
    if script == "start_up":
        session.install("uv")
        session.run("python", path, "--wheel", _wheel(session), *session.posargs)
        return
    if script in ("speed", "import_time"):  # they install each TensorFlow themselves
        session.install("uv")
    else:
        _install(session, python, *table.NEWEST, "scikit-learn", "matplotlib", "wrapt", "packaging")
    env = _environment({})
    if script in ("speed", "alternatives", "hourglass"):  # these say what they ran on: a GPU if there is one
        env["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES")
    session.run("python", path, *session.posargs, env=env)


#: One row of each kind of patch module.
CHOSEN_ROWS = ["1.14", "2.2", "2.4", "2.10", "2.15", "2.21+tf_keras", "2.22rc"]


@nox.session(venv_backend="none")
def node_counts(session):
    """Count the nodes of a train step, stock and patched, on chosen rows, and write docs/node-counts.md."""
    _with_rows(session, CHOSEN_ROWS, "docs/make_node_counts.py", _wheel(session))


@nox.session(venv_backend="none")
def files(session):
    """Write files of every kind with some versions, read them with these and newer ones; writes docs/files.md."""
    _with_rows(session, ["2.2", "2.3", "2.4", "2.10", "2.15", "2.21+tf_keras"], "docs/make_files.py", _wheel(session))


@nox.session(venv_backend="none")
def mutation(session):
    """Put faults into the patch modules, one at a time, and see which the tests find; writes docs/mutation.md."""
    rows = CHOSEN_ROWS[:-1] + ["2.21"]  # JAX goes with it
    _with_rows(session, rows, "tests/mutation.py", "wrapt>=1.11.1", "packaging>=20.0", *TEST_TOOLS)


def _with_rows(session, rows, script, *requirements):
    """Run a script that takes interpreters of some rows, each with these requirements."""
    folder = ROOT / ".nox" / "rows"
    pythons = []
    try:
        for name in rows:
            python = _environment_of_row(session, table.row(name), folder / name)
            _install(
                session, python, *requirements, *(["jax"] if script == "tests/mutation.py" and name == "2.21" else [])
            )
            pythons.append("%s=%s" % (name, python))
        session.run(sys.executable, script, *pythons, *session.posargs, env=_environment({}), external=True)
    finally:
        shutil.rmtree(str(folder), ignore_errors=True)


@nox.session(venv_backend="none")
def wheel(session):
    """Build the wheel into the folder given after ``--``."""
    _build(session, Path(session.posargs[0]))


def _python_of(session):
    return str(Path(session.bin) / "python")


def _install(session, python, *requirements):
    session.run("uv", "pip", "install", "--python", python, *requirements, external=True)


def _run_suites(session, python, folder, env, *options, tools=TEST_TOOLS, suites=SUITES):
    """Install our wheel beside the TensorFlow that is there, then run the tests on the two."""
    before = _installed(session, python)
    _install(session, python, _wheel(session))
    lost = before - _installed(session, python)
    if lost:
        session.error("installing tfls-patch changed %s" % ", ".join(sorted(lost)))

    # Held at what TensorFlow was installed with; pytest alone would move the typing-extensions that TF 2.4 pins.
    held = folder / "installed.txt"
    held.write_text("\n".join(sorted(before)))
    _install(session, python, "--constraint", str(held), *tools)

    tree = _tree_without_package(folder / "tree")
    with session.chdir(str(tree)):
        arguments = ["-m", "pytest", *(session.posargs or suites), *options]
        session.run(python, *arguments, env=_environment(env), external=True)


def _installed(session, python):
    """Return what is installed, as a set of ``name==version``."""
    frozen = session.run("uv", "pip", "freeze", "--python", python, external=True, silent=True, log=False)
    return {line for line in frozen.splitlines() if "==" in line}


def _tree_without_package(tree):
    """Copy what the tests read, but not the package: Python would find it before the installed one."""
    shutil.rmtree(str(tree), ignore_errors=True)
    leave = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info")

    def ignore(folder, names):
        package = {"tfls_patch", "build", "dist"} if Path(folder) == ROOT else set()
        return leave(folder, names) | package

    shutil.copytree(str(ROOT), str(tree), ignore=ignore)
    return tree


def _environment(extra):
    """Return the environment for a run of ours; None takes a variable away."""
    ours = {name: None for name in os.environ if name.startswith("TFLS_PATCH") or name == "PYTHONPATH"}
    return {**ours, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3", **extra}


def _wheel(session):
    """Return the path of the wheel to test, building it the first time."""
    if WHEEL not in os.environ:
        folder = ROOT / ".nox" / "wheel"
        shutil.rmtree(str(folder), ignore_errors=True)
        _build(session, folder)
        os.environ[WHEEL] = str(next(folder.glob("*.whl")))
    return os.environ[WHEEL]


def _build(session, folder):
    # By way of the sdist, so a file that it lacks is missed, and nothing stale in build/ gets into the wheel.
    session.run("uv", "build", "--quiet", "--out-dir", str(folder), str(ROOT), external=True)
