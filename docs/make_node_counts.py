"""Write docs/node-counts.md: what a traced train step is made of, patched and not.

    nox -s node_counts                                              install the rows, and do this
    python3 docs/make_node_counts.py 2.10=/envs/2.10/bin/python ...     with interpreters that have this package

A row of tests/matrix.py is given as ``ROW=PYTHON``. Counts are exact: they do not depend on the machine.
"""

import argparse
import collections
import datetime
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "node-counts.md"
COSTS = ROOT / "tests" / "integration" / "scenarios" / "costs.py"
sys.path.insert(0, str(ROOT / "tests"))

import matrix  # noqa: E402  (it is not a package that could be installed)

TEXT = """\
<!-- Written by docs/make_node_counts.py. Do not edit: run `python3 dev.py nox -s node_counts`. -->

# Node counts

What a traced train step is made of, stock and patched: the number of graph nodes, counted in the graph and in all
functions that it calls. "Finite step" is the part that runs when all gradients are finite: the branches that such a
step takes, and all that is outside of branches. "Whole step" holds the branches of skipped steps and of growth as
well. In a TF1 graph those hold the record that `stats` reads; in a `tf.function` it is built on demand only.

Counts are stock / patched. The last column is what a finite step passes more (+) or less (-) of each kind of node.
{sections}
Written on {date} by `python3 dev.py nox -s node_counts`, before the graph optimizer. Each surface trains two weights
that have gradients and one whose gradient is None, with the default bounds; the growth interval is 2000. The surfaces
are those of `tests/integration/scenarios/surfaces.py`. On every row of the test matrix,
`tests/integration/scenarios/conformance.py` asserts that a finite step passes no node more than in stock.
"""


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="+", metavar="ROW=PYTHON", help="a row of tests/matrix.py and its interpreter")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page to write (default: docs/node-counts.md)")
    options = parser.parse_args(arguments)
    sections = []
    for text in options.rows:
        name, _, python = text.partition("=")
        sections.append(_section(matrix.row(name), python))
        print(sections[-1], flush=True)
    page = TEXT.format(sections="".join(sections), date=datetime.date.today().isoformat())
    options.out.write_text(page, encoding="utf-8")
    return 0


def _section(row, python):
    """Count on one row."""
    lines = ["| surface | whole step | finite step | finite step, by kind |", "| --- | --- | --- | --- |"]
    version = None
    for mode in ("graph", "eager"):
        stock, patched = (_costs(row, python, mode, part) for part in ("stock", "patched"))
        version = stock["version"]
        for name, cost in stock["costs"].items():
            ours = patched["costs"][name]
            counts = [_pair(cost[part], ours[part]) for part in ("whole", "finite")]
            lines.append("| %s | %s | %s | %s |" % (name, *counts, _difference(cost["finite"], ours["finite"])))
    return "\n## TensorFlow %s, `tf.keras` is %s\n\n%s\n" % (version, row.keras, "\n".join(lines))


def _costs(row, python, mode, part):
    environ = dict(os.environ, CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="3", PYTHONWARNINGS="ignore", **row.env)
    environ["TFLS_PATCH"] = "0" if part == "stock" else "1"
    with tempfile.TemporaryDirectory() as folder:
        command = [python, str(COSTS), mode, part]
        finished = subprocess.run(command, env=environ, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    line = next(line for line in finished.stdout.splitlines() if line.startswith("COSTS "))
    return json.loads(line[len("COSTS ") :])


def _pair(stock, ours):
    return "%d / %d" % (sum(stock.values()), sum(ours.values()))


def _difference(stock, ours):
    counts = collections.Counter(ours)
    counts.subtract(stock)
    return ", ".join("%+d `%s`" % (count, op) for op, count in sorted(counts.items()) if count) or "none"


if __name__ == "__main__":
    sys.exit(main())
