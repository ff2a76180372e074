"""Write docs/files.md: what each kind of file keeps of a training, by who wrote it and who reads it.

    nox -s files                                            install the rows, and do this
    python3 docs/make_files.py 2.2=/envs/2.2/bin/python ...     with interpreters that have this package

A row of tests/matrix.py is given as ``ROW=PYTHON``. Each row writes every kind of file that it has, once as stock and
once patched, and reads its own; rows of READERS read those of all older rows, too. Everything runs in the scenario
``files``, which also checks that the reader goes on by its own rule from what came back.
"""

import argparse
import datetime
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "files.md"
INTEGRATION = ROOT / "tests" / "integration"
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(INTEGRATION))

import file_notes  # noqa: E402  (these are no packages that could be installed)
import matrix  # noqa: E402
from processes import environment  # noqa: E402

#: Rows that read what older ones wrote.
READERS = ["2.4", "2.10", "2.15", "2.21+tf_keras"]
MODES = ["eager", "graph"]

TEXT = """\
<!-- Written by docs/make_files.py. Do not edit: run `python3 dev.py nox -s files`. -->

# What files keep

Which of the loss scale, its counter and the weights come back from each kind of file. Each file was written by a stock
process and by a patched one, whose scale was below 1, and each of the two was read by a stock process and by a patched
one. {agreement}

- **all**: the scale, the counter and the weight, and for models the optimizer's momentum.
- **weight**: the weight alone. Training goes on from the initial scale, in stock as well.
- **cannot read**: stock raises this error when it reads a file that stock has written; patched, it is the same.
- An empty field: one of the versions has no such optimizer, or does not write such files.

Whatever came back, the reader was seen to go on by its own rule from there: stock brings a scale below 1 back to 1 at
the next overflow.

## Written and read by the same version

{own}

## Written by one version, read by another

{across}

Surfaces are those of `tests/integration/scenarios/surfaces.py`; "function" and "eager" share their files. Versions:
{versions}. Run on {date}.
"""


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="+", metavar="ROW=PYTHON", help="a row of tests/matrix.py and its interpreter")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page to write (default: docs/files.md)")
    options = parser.parse_args(arguments)
    pythons = dict(text.split("=", 1) for text in options.rows)
    rows = [row for row in matrix.ROWS if row.tf in pythons]
    found, complaints = {}, []
    with tempfile.TemporaryDirectory(prefix="files_") as folder:
        for mode in MODES:
            for row in rows:
                _write(row, pythons[row.tf], mode, Path(folder) / mode / row.tf)
        for writer, reader in _pairs(rows):
            for mode in MODES:
                source, place = Path(folder) / mode / writer.tf, Path(folder) / "read"
                cells, said = _read(reader, pythons[reader.tf], mode, source, place, writer is reader)
                found.setdefault((writer.tf, reader.tf), {}).update(cells)
                complaints += ["%s -> %s: %s" % (writer.tf, reader.tf, each) for each in said]
            print("%s -> %s\n  %s" % (writer.tf, reader.tf, found[writer.tf, reader.tf]), flush=True)
    options.out.write_text(_page(found, complaints, rows), encoding="utf-8")
    print("\n".join(complaints))
    return 1 if complaints else 0


def _pairs(rows):
    for reader in rows:
        for writer in rows[: rows.index(reader) + 1]:
            if writer is reader or reader.tf in READERS:
                yield writer, reader


def _write(row, python, mode, folder):
    folder.mkdir(parents=True)
    for writer in file_notes.WRITERS:
        _run(row, python, "write", writer, mode, folder / writer)


def _read(row, python, mode, source, place, is_same_version):
    """Reads what a row has written, from a copy; returns ``{format: what came back}`` and complaints."""
    shutil.rmtree(str(place), ignore_errors=True)
    shutil.copytree(str(source), str(place))
    folders = {writer: place / writer for writer in file_notes.WRITERS}
    for reader in file_notes.READERS:
        _run(row, python, "read", reader, mode, *folders.values())
    return _cells(folders), file_notes.complaints(folders, is_same_version)


def _cells(folders):
    """Returns ``{format: what came back}``."""
    cells = {name: _word(words) for name, words in file_notes.table(folders).items()}
    for writer, folder in folders.items():
        written = file_notes.load(folder, "written")
        for name, note in file_notes.load(folder, "read by " + writer).items():
            if cells[name] == "all" and not file_notes.goes_on(written[name], note):
                cells[name] = "all but momentum"
    return cells


def _run(row, python, *arguments):
    script = INTEGRATION / "scenarios" / "files.py"
    with tempfile.TemporaryDirectory() as folder:
        command = [python, str(script), *map(str, arguments)]
        done = subprocess.run(command, env=environment(row.env), cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit("%s\n%s" % (" ".join(command), done.stdout + done.stderr[-4000:]))


def _word(cells):
    said = {"all" if text == "scale, counter, weight" else text for text in cells.values()}
    if len(said) == 1:
        return said.pop()
    return "; ".join("%s -> %s: %s" % (*who, text) for who, text in sorted(cells.items()))


def _page(found, complaints, rows):
    own = [(writer, reader) for writer, reader in found if writer == reader]
    across = [pair for pair in found if pair not in own]
    agreement = "The four came to the same in every case."
    if complaints:
        agreement = "They differ here:\n\n" + "\n".join("- " + each for each in complaints)
    return TEXT.format(
        agreement=agreement,
        own=_table(found, own, lambda pair: pair[0]),
        across=_table(found, across, lambda pair: "%s to %s" % pair),
        versions=", ".join(row.package + "".join(", " + pin for pin in row.pins if "keras" in pin) for row in rows),
        date=datetime.date.today().isoformat(),
    )


def _table(found, pairs, title):
    """A line for each pair, a column for each kind of file."""
    names = sorted({name for pair in pairs for name in found[pair]})
    lines = ["| kind of file | " + " | ".join(map(title, pairs)) + " |", "| --- |" + " --- |" * len(pairs)]
    for name in names:
        lines.append("| %s | %s |" % (name, " | ".join(found[pair].get(name, "") for pair in pairs)))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
