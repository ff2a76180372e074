"""Measure what the patch costs in time, and write docs/benchmarks.md.

    nox -s "benchmarks(script='speed')"              the versions in ROWS, each installed for the time that it takes
    ... -- --quick --busy --out /tmp/page.md         whether it works, in a few minutes; writes no page unless --out
    ... -- --envs DIR                                environments that are there: DIR/<row>/bin/python
    ... -- --python PATH                             the TensorFlow of that Python alone, for example one with a GPU

Train steps and bare updates are timed by ``steps_worker.py``, stock and patched in one process and in turns. Starts of
a process that imports TensorFlow are timed from outside, in turns as well.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
sys.path.insert(0, str(ROOT / "tests"))

import common  # noqa: E402  (beside this file)
import matrix  # noqa: E402

ROWS = ["2.2", "2.4", "2.10", "2.15", "2.21+tf_keras", "2.22rc"]
#: Where starts are timed too, which takes longest.
ROWS_OF_STARTS = ["2.2", "2.15", "2.22rc"]

#: Rounds, sets of contestants, starts.
FULL, QUICK = (40, 3, 25), (3, 1, 2)

STARTS = {
    "`import tensorflow`, not installed": ("bare", {}),
    "the same again": ("bare", {}),
    "installed, `TFLS_PATCH` not set": ("installed", {}),
    "installed, `TFLS_PATCH=0`": ("installed", {"TFLS_PATCH": "0"}),
    "installed, `TFLS_PATCH=1`": ("installed", {"TFLS_PATCH": "1"}),
}
IMPORT = "import tensorflow as tf; tf.keras.Model"
FIRST_APPLY = """
import time
import tensorflow as tf
tf.keras.Model
begin = time.perf_counter()
import tfls_patch
imported = time.perf_counter()
tfls_patch.apply(min_scale=1e-4)
print(imported - begin, time.perf_counter() - imported)
"""

TEXT = """\
<!-- Written by benchmarks/speed.py. Do not edit: run `python3 dev.py nox -s "benchmarks(script='speed')"`. -->

# What the patch costs

{verdicts}

Other pages: [nodes of the graph](node-counts.md), [start-up of a Python without TensorFlow](start-up.md), [steps until
training gets going](alternatives.md), [recovery from a burst](recovery.md), [underflow](underflow.md).

## A train step

Time of a step, patched / stock. "Stock / stock" is the same with two stock models that do not differ in anything: what
is inside its range means nothing. In brackets is the range without the lowest and the highest tenth; the median of
patched / stock has its 95 % interval (bootstrap) behind it.

{steps}

Small: {small}. Medium: {medium}. Policy `mixed_float16`, SGD, every step finite.

## The bare update rule

`update` of a loss scale in a loop of {updates} inside a `tf.function`, with one gradient of one element, that is
finite, or not. Where Keras 3 is in use its rule is part of `apply`, which the train step above has.

{updates_table}

## `import tensorflow`

A process that imports TensorFlow and its Keras and ends, by the wall clock; the differences are medians within the
rounds, with their 95 % interval.
{starts}
## How it was measured

- {machine}; {system}; computing on: {devices}
- load average {before} before and {after} after; one process at a time; it took {minutes:.0f} minutes
- Train steps and updates: stock, a second stock, and patched, each with a model, an optimizer and a traced function of
  its own, in one process. In each of {rounds} rounds each of them runs for {block:g} s, in a new order, and the ratio
  is taken within the round. {sets} times with everything made anew.
- Starts: {start_count} of each kind, in a new order in each round, after one that does not count.
"""


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", type=Path, metavar="DIR", help="environments that are there: DIR/<row>/bin/python")
    parser.add_argument("--python", metavar="PATH", help="measure with the TensorFlow of this Python alone")
    parser.add_argument("--quick", action="store_true", help="only see whether it works; writes no page unless --out")
    parser.add_argument("--out", type=Path, help="the page to write (default: docs/benchmarks.md)")
    common.add_busy(parser)
    options = parser.parse_args(arguments)
    common.refuse_a_busy_machine(parser, options)
    begin, before = time.time(), common.load()
    size = QUICK if options.quick else FULL
    steps, starts = [], []
    rows = ["this Python"] if options.python else ROWS
    for row in rows:
        with tempfile.TemporaryDirectory(prefix="speed_") as folder:
            python, env = _environment(row, options, Path(folder))
            steps.append(_steps(python, env, *size[:2]))
            if options.python or row in ROWS_OF_STARTS:
                starts.append((steps[-1], _starts(python, env, Path(folder), size[2])))
            print("%4d s: %s\n%s" % (time.time() - begin, row, _steps_table(steps[-1:])), flush=True)
            if starts and starts[-1][0] is steps[-1]:
                print(_starts_table(*starts[-1]), flush=True)
    page = _page(steps, starts, size, before, (time.time() - begin) / 60)
    out = options.out or (None if options.quick else PAGE)
    if out:
        out.write_text(page, encoding="utf-8")
        print("wrote %s" % out)
    return 0


def _environment(row, options, folder):
    """Returns a Python with that TensorFlow, and the variables that it wants."""
    if options.python:
        return Path(options.python), {}
    row = matrix.row(row)
    if options.envs:
        return options.envs / row.tf / "bin" / "python", row.env
    python = folder / "tensorflow" / "bin" / "python"
    _uv("venv", "--quiet", "--python", matrix.find_interpreter(row.python), python.parent.parent)
    # With byte code, as pip leaves it: otherwise each start would compile all of TensorFlow.
    options = ["--quiet", "--compile-bytecode", "--python", python]
    _uv("pip", "install", *options, "wrapt", "packaging", row.package, *row.pins)
    return python, row.env


def _uv(*arguments):
    subprocess.run([sys.executable, "-m", "uv", *map(str, arguments)], check=True)


def _environ(env, **more):
    """Returns this environment without what would patch, or import from elsewhere."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "TFLS_PATCH"))}
    return dict(kept, TF_CPP_MIN_LOG_LEVEL="3", PYTHONWARNINGS="ignore", **env, **more)


# --- steps ---------------------------------------------------------------------------------------------------------


def _steps(python, env, rounds, sets):
    """Returns what ``steps_worker.py`` has measured."""
    worker = ROOT / "benchmarks" / "steps_worker.py"
    command = [str(python), str(worker), "--rounds", str(rounds), "--sets", str(sets)]
    with tempfile.TemporaryFile("w+") as errors:
        done = subprocess.run(command, env=_environ(env), stdout=subprocess.PIPE, stderr=errors, text=True)
        if done.returncode != 0:
            errors.seek(0)
            sys.exit("%s\n%s" % (" ".join(command), errors.read()[-3000:]))
    return json.loads(done.stdout.splitlines()[-1])


def _steps_table(measured):
    rows = []
    for each in measured:
        for result in each["results"]:
            kind, model, mode = result["name"].split("|")
            if kind == "step":
                rows.append([_software(each), model, mode, _time(result["times"]["stock"])] + _ratio_cells(result))
    header = ["software", "model", "mode", "stock, ms", "patched / stock", "stock / stock"]
    return common.table(header, rows)


def _updates_table(measured):
    rows = []
    for each in measured:
        for result in each["results"]:
            kind, cls, outcome = result["name"].split("|")
            if kind == "update":
                times = result["times"]
                rates = [
                    "%.0f" % (each["updates"] / common.median(times[name]) / 1000) for name in ("stock", "patched")
                ]
                rows.append([_software(each), "`%s`" % cls, outcome] + rates + _ratio_cells(result))
    header = ["software", "class", "gradient", "stock, 1000 / s", "patched, 1000 / s", "time, patched / stock"]
    return common.table(header + ["stock / stock"], rows)


def _ratio_cells(result):
    patched = common.ratios(result["times"]["patched"], result["times"]["stock"])
    again = common.ratios(result["times"]["stock again"], result["times"]["stock"])
    low, high = common.interval_of_median(patched)
    return ["%s, %.3f to %.3f" % (_spread(patched), low, high), _spread(again)]


def _spread(ratios):
    low, high = common.quantile(ratios, 0.1), common.quantile(ratios, 0.9)
    return "%.3f (%.3f – %.3f)" % (common.median(ratios), low, high)


def _time(seconds):
    return "%.3g" % (1000 * common.median(seconds))


def _software(measured):
    keras = "" if measured["keras"].startswith("tensorflow") else ", " + measured["keras"]
    return "TF %s%s" % (measured["tensorflow"], keras)


# --- starts --------------------------------------------------------------------------------------------------------


def _starts(python, env, folder, count):
    """Returns a dict of kind -> milliseconds of each start, with the first `apply()` beside them."""
    pythons = {name: _overlay(python, folder / name) for name in ("bare", "installed")}
    _install_package(pythons["installed"], folder)
    order, times = random.Random(common.SEED), {name: [] for name in STARTS}
    times["import tfls_patch"], times["apply()"] = [], []
    for round_ in range(count + 1):
        for name in order.sample(sorted(STARTS), len(STARTS)):
            overlay, extra = STARTS[name]
            environ = _environ(env, PYTHONDONTWRITEBYTECODE="1", **extra)
            begin = time.perf_counter()
            command = [str(pythons[overlay]), "-c", IMPORT]
            subprocess.run(command, env=environ, check=True, stderr=subprocess.DEVNULL)
            if round_:
                times[name].append(1000 * (time.perf_counter() - begin))
        printed = subprocess.run(
            [str(pythons["installed"]), "-c", FIRST_APPLY], env=_environ(env, PYTHONDONTWRITEBYTECODE="1"), check=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        ).stdout.split()  # fmt: skip
        if round_:
            times["import tfls_patch"].append(1000 * float(printed[-2]))
            times["apply()"].append(1000 * float(printed[-1]))
    return times


def _overlay(python, folder):
    """Makes an environment that sees what that Python has installed, and returns its Python.

    So TensorFlow is there once for all of them, and nothing is written to where it is.
    """
    ask = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    packages = subprocess.check_output([str(python), "-c", ask], text=True).strip()
    subprocess.run([str(python), "-m", "venv", "--without-pip", str(folder)], check=True)
    (_site_packages(folder) / "tensorflow.pth").write_text(packages + "\n")
    return folder / "bin" / "python"


def _install_package(python, folder):
    """Puts the package and its .pth file where a wheel puts them, with byte code."""
    site_packages = _site_packages(python.parent.parent)
    shutil.copytree(ROOT / "tfls_patch", site_packages / "tfls_patch", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "tfls_patch.pth", site_packages)
    subprocess.run([str(python), "-m", "compileall", "-q", str(site_packages / "tfls_patch")], check=True)


def _site_packages(folder):
    return next(folder.glob("lib/python*/site-packages"))


def _starts_table(measured, times):
    bare = times["`import tensorflow`, not installed"]
    middle = common.median(bare)
    rows = []
    for name in STARTS:
        difference = ["", ""]
        if times[name] is not bare:
            differences = common.differences(times[name], bare)
            low, high = common.interval_of_median(differences)
            difference = ["%+.0f (%+.0f to %+.0f)" % (common.median(differences), low, high)]
            difference.append("%+.2f %%" % (100 * common.median(differences) / middle))
        rows.append([name, "%.0f" % common.median(times[name])] + difference)
    for name, said in [
        ("import tfls_patch", "in a process that has TensorFlow"),
        ("apply()", "the first one after it"),
    ]:
        took = common.median(times[name])
        rows.append(["`%s`, %s" % (name, said), "%.1f" % took, "", "%.2f %%" % (100 * took / middle)])
    header = ["start", "median, ms", "difference, ms", "of `import tensorflow`"]
    return "\n### %s\n\n%s\n" % (_software(measured), common.table(header, rows))


# --- the page ------------------------------------------------------------------------------------------------------


def _page(steps, starts, size, before, minutes):
    models = steps[0]["models"]
    return TEXT.format(
        verdicts=_verdicts(steps, starts),
        steps=_steps_table(steps),
        updates_table=_updates_table(steps),
        starts="".join(_starts_table(*each) for each in starts),
        small=_model_text(models["small"]),
        medium=_model_text(models["medium"]),
        updates=steps[0]["updates"],
        machine=common.machine(),
        system=common.system(),
        devices=", ".join(sorted({each["device"] for each in steps})),
        before=before,
        after=common.load(),
        minutes=minutes,
        rounds=size[0],
        sets=size[1],
        start_count=size[2],
        block=steps[0]["block"],
    )


def _verdicts(steps, starts):
    medians = {}
    for each in steps:
        for result in each["results"]:
            if result["name"].startswith("step"):
                ratios = common.ratios(result["times"]["patched"], result["times"]["stock"])
                medians["%s, %s" % (_software(each), result["name"][5:].replace("|", ", "))] = common.median(ratios)
    worst = max(medians, key=medians.get)
    said = "- A train step takes %.3f of stock's time: the median of %d combinations. The highest is %.3f (%s)."
    lines = [said % (common.median(list(medians.values())), len(medians), medians[worst], worst)]
    for measured, times in starts:
        bare = times["`import tensorflow`, not installed"]
        shares = [
            100 * common.median(common.differences(times[name], bare)) / common.median(bare)
            for name in ("the same again", "installed, `TFLS_PATCH` not set", "installed, `TFLS_PATCH=1`")
        ]
        said = "- %s: `import tensorflow` takes %+.2f %% with the package installed and %+.2f %% with `TFLS_PATCH=1`; "
        said += "two environments without it differ by %+.2f %%."
        lines.append(said % (_software(measured), shares[1], shares[2], shares[0]))
    return "\n".join(lines)


def _model_text(model):
    inputs, units, batch = model
    return "%d inputs, dense layers of %s, batches of %d" % (inputs, ", ".join(map(str, units)), batch)


if __name__ == "__main__":
    sys.exit(main())
