"""Measure what the patch adds to `import tensorflow`, and write docs/import-time.md.

    nox -s "benchmarks(script='import_time')"        the versions in ROWS, each installed for the time that it takes
    ... -- --quick --busy                            whether it works; writes no page unless --out
    ... -- --envs DIR                                environments that are there: DIR/<row>/bin/python
    ... -- --python PATH                             the TensorFlow of that Python alone

Whole starts of TensorFlow differ by a tenth from one to the next, and what is looked for is less than a hundredth. So
the time is taken inside one process, around each call of ours: the package's import, the import hooks and all that is
loaded for them, the finders that every import then passes, and the patching.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "import-time.md"
WORKER = ROOT / "benchmarks" / "import_worker.py"

import common  # noqa: E402  (beside this file)
import rows  # noqa: E402

ROWS = ["1.14", "2.2", "2.4", "2.10", "2.15", "2.21+tf_keras", "2.22rc"]
PARTS = ["import tfls_patch", "hooks", "finders", "patching"]

TEXT = """\
<!-- Written by benchmarks/import_time.py. Do not edit: run `nox -s "benchmarks(script='import_time')"`. -->

# What is added to `import tensorflow`

Milliseconds of our own work in a process that imports the package, then TensorFlow, then its Keras; medians over
{rounds} processes, in brackets the range without the lowest and the highest tenth.

{table}

- **import tfls_patch**: what `TFLS_PATCH=1` adds to every start of Python. Without TensorFlow nothing else follows:
  [start-up](start-up.md) has that, and what it costs to have the package installed and not switched on.
- **hooks**: everything that patching takes is loaded, and the import hooks are registered, when `import tensorflow`
  begins.
- **finders**: every module that is imported afterwards is looked for with the finder of wrapt and with ours first.
- **patching**: versions and shapes are checked, and functions replaced.
- **all**: the sum, and its share of the rest of the time, which is stock's.
- What TensorFlow loads in any case, wrapt among it, is loaded before the clock of the hooks starts.

## How it was measured

- {machine}; {system}
- load average {before} before and {after} after; one process at a time, {rounds} for each TensorFlow in turn, after one
  that does not count
- with byte code, on the wall clock, inside the process; what a clock reports of a function that does nothing was
  measured in the same process, and is taken off
"""


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    rows.add_options(parser)
    parser.add_argument("--rounds", type=int, default=15, help="processes for each TensorFlow (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="the page to write (default: docs/import-time.md)")
    common.add_busy(parser)
    options = parser.parse_args(arguments)
    common.refuse_a_busy_machine(parser, options)
    begin, before = time.time(), common.load()
    rounds = 2 if options.quick else options.rounds
    lines = []
    for row in rows.wanted(options, ROWS):
        with tempfile.TemporaryDirectory(prefix="import_") as folder:
            python, env = rows.of(row, options, Path(folder))
            found = _measure(python, env, rounds)
        lines.append(_line(found))
        print("%4d s: %s" % (time.time() - begin, lines[-1]), flush=True)
    header = ["software"] + PARTS + ["all", "of the rest of `import tensorflow`"]
    page = TEXT.format(
        rounds=rounds,
        table=common.table(header, lines),
        machine=common.machine(),
        system=common.system(),
        before=before,
        after=common.load(),
    )
    out = options.out or (None if options.quick else PAGE)
    if out:
        out.write_text(page, encoding="utf-8")
        print("wrote %s" % out)
    return 0


def _measure(python, env, rounds):
    """Returns what each process has reported."""
    stock = _run(python, env, "stock", [])
    first = _run(python, env, "patched", [])  # not counted: it fills the caches, and says what is loaded for the hooks
    shared = [name for name in first["loaded"] if name in set(stock["modules"])]
    return [_run(python, env, "patched", shared) for _ in range(rounds)]


def _run(python, env, part, shared):
    command = [str(python), str(WORKER), part, json.dumps(shared)]
    environ = rows.environ(dict(env, PYTHONPATH=str(ROOT)))
    done = subprocess.run(command, env=environ, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout.decode().splitlines()[-1])


def _line(found):
    parts = [[1000 * each["spent"].get(part, 0.0) for each in found] for part in PARTS]
    sums = [sum(times) for times in zip(*parts)]
    shares = [100 * total / (1000 * each["total"] - total) for total, each in zip(sums, found)]
    cells = ["%.1f (%.1f – %.1f)" % _spread(times) for times in parts + [sums]]
    return [rows.software(found[0])] + cells + ["%.2f %% (%.2f – %.2f)" % _spread(shares)]


def _spread(values):
    return common.median(values), common.quantile(values, 0.1), common.quantile(values, 0.9)


if __name__ == "__main__":
    sys.exit(main())
