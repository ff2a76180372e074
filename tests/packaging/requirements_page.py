"""Writes ``docs/requirements.md`` from what the tests of ``test_requirements.py`` reported."""

import datetime
import re

from environments import ROOT, matrix

PAGE = ROOT / "docs" / "requirements.md"

TEXT = """\
<!-- Written by `python3 dev.py requirements`, from what it measured. Do not edit: run it again. -->

# Beside any TensorFlow pin

`tfls-patch` can be pinned beside each TensorFlow of the [test matrix](supported-versions.md), in any order, and moves
nothing that TensorFlow has without it. Each line was measured in empty virtual environments, with the pip that this
Python comes with or with uv, against the real index.

- **after**: TensorFlow was installed first, then `tfls-patch`. `ok`: `freeze` lists all that it lists for TensorFlow
  alone, in the same versions, and `check` complains of nothing more.
- **before**, **together**, **hashes**: `tfls-patch` first, then TensorFlow; one `requirements.txt` with both pins; the
  same with everything pinned by `--hash` and installed with `--require-hashes`. `ok`: this ends in the same versions as
  **after**. A pip from 22.2 on was asked by `--dry-run` what it would install; the others installed.
- **adds**: what `freeze` lists beside `tfls-patch` and what TensorFlow has alone.
- **`--no-deps`**: whether wrapt and packaging come with TensorFlow, so that `pip check` has nothing to say after
  `pip install --no-deps tfls-patch`. wrapt is a requirement of each TensorFlow here, packaging one from 2.9 on; older
  ones can have it by chance, by way of a recent wheel. TensorFlow is patched either way: only `doctor` uses packaging.
- **measured**: when, and with which `tfls-patch`. All of it was on x86-64 Linux.

What is installed as TensorFlow, and with which pins, is in [`tests/matrix.py`](../tests/matrix.py). The pip of Python
3.6 was given `--prefer-binary`, or it would compile grpcio.

`python3 dev.py requirements -k 2.10` measures one row again and leaves the other lines as they are.

{table}
"""

HEADER = ["TensorFlow", "Python", "by", "after", "before", "together", "hashes", "adds", "`--no-deps`", "measured"]

# The tests behind the columns, in that order.
COLUMNS = [
    "test_ours_after_tensorflow_moves_nothing",
    "test_ours_before_tensorflow_gives_the_same",
    "test_one_requirements_file_gives_the_same",
    "test_pins_with_hashes_give_the_same",
]

FAILED = "**failed**"


class Recorder:
    """A plugin for pytest that collects what the tests report, and writes the page at the end."""

    def __init__(self):
        self._lines = {}  # (row, tool) -> {name of a test: ok or failed, what a test recorded: text}

    def pytest_runtest_logreport(self, report):
        found = re.search(r"test_requirements.py::(\w+)\[(.+)-(pip|uv)\]$", report.nodeid)
        if found is None:
            return
        test, row, tool = found.groups()
        line = self._lines.setdefault((row, tool), {})
        if not report.passed:
            line[test] = FAILED
        elif report.when == "call":
            line.update(report.user_properties)
            line[test] = "ok"

    def pytest_sessionfinish(self):
        lines = _lines_of_page()
        lines.update({(row, tool): self._cells(row, tool) for row, tool in self._lines})
        names = [(row.tf, tool) for row in matrix.ROWS for tool in ("pip", "uv")]
        # What was never measured counts as failed.
        table = [HEADER, ["---"] * len(HEADER)] + [lines.get(name, self._cells(*name)) for name in names]
        text = "\n".join("| %s |" % " | ".join(cells) for cells in table)
        PAGE.write_text(TEXT.format(table=text), encoding="utf-8")

    def _cells(self, row, tool):
        line = self._lines.get((row, tool), {})
        cells = [row, line.get("python", matrix.row(row).python), line.get("tool", tool)]
        cells += [line.get(name, FAILED) for name in COLUMNS]
        cells += [line.get("added", FAILED) or "-", line.get("no_deps", FAILED) if tool == "pip" else ""]
        today = datetime.datetime.now(datetime.timezone.utc).date()
        return cells + ["%s with %s" % (today, _version())]


def rows_of_page():
    """Return the names of the rows on the page that is there, in its order."""
    return [row for row, tool in _lines_of_page() if tool == "pip"]


def _lines_of_page():
    """Return ``{(row, tool): cells}`` of the page that is there."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    found = [line[2:-2].split(" | ") for line in text.splitlines() if re.match(r"\| \d", line)]
    return {(cells[0], cells[2].split()[0]): cells for cells in found}


def _version():
    text = (ROOT / "tfls_patch" / "_version.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE).group(1)
