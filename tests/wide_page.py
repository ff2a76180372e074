"""Writes ``docs/wide-matrix.md``: what came of the nox sessions ``keras``, ``torch`` and ``wide``, run by run."""

import datetime
import re
import subprocess
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "wide-matrix.md"

TEXT = """\
<!-- Written by the nox sessions keras, torch and wide, from what they ran. Do not edit: run them again. -->

# Wide matrix

Environments beside those of the [test matrix](supported-versions.md), which are tested now and then, not for every
change. Each session writes its line when it ends, whether it passed or failed, so this is the last result of each.

- `nox -s keras`: what concerns Keras 3, on older releases of Keras 3.
- `nox -s torch`: the rule on Keras 3 with torch.
- `nox -s wide`: import hooks, and the rule, with the oldest wrapt that this Python takes, with 1.14 (the last one that
  runs hooks under its own lock) and with the newest. Some releases of TensorFlow pin wrapt; `uv pip install --override`
  puts that aside, so it is a combination that pip would not make.

Nor are there rows for patch releases: those of one minor version do not differ where they hold a loss scale, see
[Patch releases](patch-releases.md).

| session | passed | failed | skipped | versions | run on |
| --- | --- | --- | --- | --- | --- |
{lines}
"""

#: What is said of an environment, if it is there; TensorFlow has many names.
NAMED = re.compile(r"(?i)^(tensorflow(-cpu|-gpu)?|tf[-_]keras|keras(-nightly)?|torch|jax|wrapt|packaging|numpy)==")


def record(session, python, counts):
    """Write the line of one session; the others stay as they are.

    Args:
        session: Its name, as nox takes it.
        python: The interpreter that the tests ran with.
        counts: ``(passed, failed, skipped)``.
    """
    lines = lines_of_page()
    today = datetime.datetime.now(datetime.timezone.utc).date()
    lines[session] = "| `%s` | %d | %d | %d | %s | %s |" % ((session,) + counts + (_versions(python), today))
    ordered = "\n".join(lines[name] for name in sorted(lines, key=_natural))
    PAGE.write_text(TEXT.format(lines=ordered), encoding="utf-8")


def counts_of(report):
    """Return ``(passed, failed, skipped)`` of a report of pytest in JUnit's form; a run without one has failed."""
    if not report.exists():
        return 0, 1, 0
    suite = xml.etree.ElementTree.parse(str(report)).getroot()
    suite = suite if suite.tag == "testsuite" else suite.find("testsuite")
    failed = int(suite.get("failures")) + int(suite.get("errors"))
    skipped = int(suite.get("skipped", 0))
    return int(suite.get("tests")) - failed - skipped, failed, skipped


def lines_of_page():
    """Return ``{session: line}`` of the page that is there."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    return {match.group(1): match.group(0) for match in re.finditer(r"^\| `([^`]+)` \|.*$", text, re.MULTILINE)}


def _versions(python):
    version = subprocess.check_output([python, "-c", "import sys; print(sys.version.split()[0])"], text=True).strip()
    frozen = subprocess.check_output(["uv", "pip", "freeze", "--quiet", "--python", python], text=True)
    found = [line.replace("==", " ") for line in frozen.splitlines() if NAMED.match(line)]
    return ", ".join(["Python " + version] + found)


def _natural(name):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
