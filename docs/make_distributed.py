"""Writes the tables of docs/distributed.md from what the tests in tests/distributed found on each TensorFlow.

    python docs/make_distributed.py --add ROW FILE    take over what a run of the tests has recorded; see noxfile.py
    python docs/make_distributed.py                   write the tables
    python docs/make_distributed.py --check           fail if they are not what they should be

What was found is kept in docs/distributed.json.
"""

import datetime
import json
import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent / "tests"))

import matrix  # noqa: E402

PAGE, DATA = DOCS / "distributed.md", DOCS / "distributed.json"

#: Table -> its columns: the heading, and the name by which the tests record it.
TABLES = {
    "one process": [
        ("OneDevice", "OneDeviceStrategy"),
        ("Mirrored", "MirroredStrategy"),
        ("CentralStorage", "CentralStorageStrategy"),
        ("ParameterServer", "ParameterServerStrategy"),
    ],
    "several workers": [
        ("custom loop", "workers: custom loop"),
        ("`fit`", "workers: fit"),
        ("killed and restarted", "workers: killed and restarted"),
        ("one is not patched", "workers: one is not patched"),
        ("stock, one overflows", "workers: stock"),
    ],
}


def add(row, file):
    """Takes over what was found on a row of the matrix."""
    matrix.row(row)  # raises for a name that is none
    data = json.loads(DATA.read_text()) if DATA.exists() else {}
    found = json.loads(Path(file).read_text())
    data[row] = {**data.get(row, {}), **found, "measured": datetime.date.today().isoformat()}
    DATA.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")


def page():
    """Returns the text that the page should have."""
    data, text = json.loads(DATA.read_text()), PAGE.read_text()
    for name, columns in TABLES.items():
        begin, end = "<!-- table: %s -->\n" % name, "<!-- end of table -->"
        pattern = re.escape(begin) + ".*?" + re.escape(end)
        table = begin + "\n".join(lines_of(columns, data)) + "\n" + end
        text, count = re.subn(pattern, lambda match: table, text, flags=re.S)
        if count != 1:
            sys.exit("%s has no place for the table %r" % (PAGE, name))
    return text


def lines_of(columns, data):
    yield "| TensorFlow | %s | measured |" % " | ".join(heading for heading, _ in columns)
    yield "| --- |" + " --- |" * (len(columns) + 1)
    for row in matrix.ROWS:
        found = data.get(row.tf)
        if found and any(key in found for _, key in columns):
            cells = [found.get(key, "-") for _, key in columns]
            yield "| %s, %s | %s | %s |" % (row.minor, row.keras, " | ".join(cells), found["measured"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--add"]:
        add(*sys.argv[2:4])
    if sys.argv[1:2] == ["--check"]:
        if page() != PAGE.read_text():
            sys.exit("docs/distributed.md is out of date: run python docs/make_distributed.py")
    else:
        PAGE.write_text(page())
