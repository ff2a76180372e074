"""Measure what the patch costs in time, and write docs/benchmarks.md.

    nox -s "benchmarks(script='speed')"              the versions in ROWS, each installed for the time that it takes
    ... -- --quick --busy --out /tmp/page.md         whether it works, in a few minutes; writes no page unless --out
    ... -- --envs DIR                                environments that are there: DIR/<row>/bin/python
    ... -- --python PATH                             the TensorFlow of that Python alone, for example one with a GPU

Train steps and bare updates are timed by ``steps_worker.py``, stock and patched in one process and in turns.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
import common  # noqa: E402  (beside this file)
import rows  # noqa: E402

ROWS = ["2.2", "2.4", "2.10", "2.15", "2.21+tf_keras", "2.22rc"]
#: Rounds, and sets of contestants.
FULL, QUICK = (40, 3), (3, 1)

TEXT = """\
<!-- Written by benchmarks/speed.py. Do not edit: run `python3 dev.py nox -s "benchmarks(script='speed')"`. -->

# What the patch costs

{verdict}

Other pages: [nodes of the graph](node-counts.md), [`import tensorflow`](import-time.md), [start-up of a Python without
TensorFlow](start-up.md), [steps until training gets going](alternatives.md), [recovery from a burst](recovery.md),
[underflow](underflow.md).

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

## How it was measured

- {machine}; {system}; computing on: {devices}
- load average {before} before and {after} after; one process at a time; it took {minutes:.0f} minutes
- Train steps and updates: stock, a second stock, and patched, each with a model, an optimizer and a traced function of
  its own, in one process. In each of {rounds} rounds each of them runs for {block:g} s, in a new order, and the ratio
  is taken within the round. {sets} times with everything made anew.
"""


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    rows.add_options(parser)
    parser.add_argument("--out", type=Path, help="the page to write (default: docs/benchmarks.md)")
    common.add_busy(parser)
    options = parser.parse_args(arguments)
    common.refuse_a_busy_machine(parser, options)
    begin, before = time.time(), common.load()
    size = QUICK if options.quick else FULL
    steps = []
    for row in rows.wanted(options, ROWS):
        with tempfile.TemporaryDirectory(prefix="speed_") as folder:
            python, env = rows.of(row, options, Path(folder))
            steps.append(_steps(python, env, *size))
            print("%4d s: %s\n%s" % (time.time() - begin, row, _steps_table(steps[-1:])), flush=True)
    page = _page(steps, size, before, (time.time() - begin) / 60)
    out = options.out or (None if options.quick else PAGE)
    if out:
        out.write_text(page, encoding="utf-8")
        print("wrote %s" % out)
    return 0


# --- steps ---------------------------------------------------------------------------------------------------------


def _steps(python, env, rounds, sets):
    """Returns what ``steps_worker.py`` has measured."""
    worker = ROOT / "benchmarks" / "steps_worker.py"
    command = [str(python), str(worker), "--rounds", str(rounds), "--sets", str(sets)]
    with tempfile.TemporaryFile("w+") as errors:
        done = subprocess.run(command, env=rows.environ(env), stdout=subprocess.PIPE, stderr=errors, text=True)
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
                rows.append([rows.software(each), model, mode, _time(result["times"]["stock"])] + _ratio_cells(result))
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
                rows.append([rows.software(each), "`%s`" % cls, outcome] + rates + _ratio_cells(result))
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


# --- the page ------------------------------------------------------------------------------------------------------


def _page(steps, size, before, minutes):
    models = steps[0]["models"]
    return TEXT.format(
        verdict=_verdict(steps),
        steps=_steps_table(steps),
        updates_table=_updates_table(steps),
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
        block=steps[0]["block"],
    )


def _verdict(steps):
    medians = {}
    for each in steps:
        for result in each["results"]:
            if result["name"].startswith("step"):
                ratios = common.ratios(result["times"]["patched"], result["times"]["stock"])
                medians["%s, %s" % (rows.software(each), result["name"][5:].replace("|", ", "))] = common.median(ratios)
    worst = max(medians, key=medians.get)
    said = "A train step takes %.3f of stock's time: the median of %d combinations. The highest is %.3f (%s)."
    return said % (common.median(list(medians.values())), len(medians), medians[worst], worst)


def _model_text(model):
    inputs, units, batch = model
    return "%d inputs, dense layers of %s, batches of %d" % (inputs, ", ".join(map(str, units)), batch)


if __name__ == "__main__":
    sys.exit(main())
