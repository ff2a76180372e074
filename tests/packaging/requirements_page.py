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
- **`--no-deps`**: whether TensorFlow brings wrapt and packaging itself, so that `pip install --no-deps tfls-patch` is
  enough. Where it says yes, TensorFlow was imported after that and was patched.

What is installed as TensorFlow, and with which pins, is in [`tests/matrix.py`](../tests/matrix.py). The pip of Python
3.6 was given `--prefer-binary`, or it would compile grpcio.

Measured on {date} with tfls-patch {version}, on x86-64 Linux.

{table}
"""

HEADER = ["TensorFlow", "Python", "by", "after", "before", "together", "hashes", "adds", "`--no-deps`"]

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
        self._lines = {}  # (row, tool) -> {what: text}

    def pytest_runtest_logreport(self, report):
        said = dict(report.user_properties)
        if report.when != "call" or "row" not in said:
            return
        line = self._lines.setdefault((said["row"], said["tool"].split()[0]), {})
        line[report.nodeid.split("::")[-1].split("[")[0]] = "ok" if report.passed else FAILED
        if report.passed:
            line.update(said)

    def pytest_sessionfinish(self):
        # What no test has spoken for counts as failed.
        table = [HEADER, ["---"] * len(HEADER)]
        table += [self._cells(row, tool) for row in matrix.ROWS for tool in ("pip", "uv")]
        text = "\n".join("| %s |" % " | ".join(cells) for cells in table)
        today = datetime.datetime.now(datetime.timezone.utc).date()
        PAGE.write_text(TEXT.format(date=today, version=_version(), table=text), encoding="utf-8")

    def _cells(self, row, tool):
        line = self._lines.get((row.tf, tool), {})
        cells = [row.tf, line.get("python", row.python), line.get("tool", tool)]
        cells += [line.get(name, FAILED) for name in COLUMNS]
        suffices = line.get("no_deps", FAILED) if tool == "pip" else ""
        return cells + [line.get("added", FAILED) or "-", suffices]


def rows_of_page():
    """Return the names of the rows on the page that is there, in its order."""
    lines = re.findall(r"^\| (\d[^ ]*) \|.*\| pip ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return lines


def _version():
    text = (ROOT / "tfls_patch" / "_version.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE).group(1)
