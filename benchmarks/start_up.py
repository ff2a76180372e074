"""Measure what the package costs at the start of Python, and write docs/start-up.md.

    nox -s "benchmarks(script='start_up')"                  install what it takes, and do this
    nox -s "benchmarks(script='start_up')" -- --starts 500  the same with options

The environments are made for the run, in a temporary folder: two without the package and one with the wheel in it. The
kinds of start take turns, in a new order each round, so what else the machine does hits all of them alike. Two
environments that do not differ show what a difference means.
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import textwrap
import time
from collections import namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "start-up.md"
sys.path.insert(0, str(ROOT / "tests" / "packaging"))

import common  # noqa: E402  (beside this file)
from environments import Environment, copy_of_source, run, uv  # noqa: E402  (no package that could be installed)

Kind = namedtuple("Kind", ["name", "python", "code", "env"])
Result = namedtuple("Result", ["kind", "times", "ours", "others"])

SEED = 1
WARM_UP = 10

TEXT = """\
<!-- Written by benchmarks/start_up.py. Do not edit: run `python3 dev.py nox -s "benchmarks(script='start_up')"`. -->

# Start-up time

What it costs to have the package installed, for a Python that does not use it and for one that does. TensorFlow is not
imported here; importing it takes seconds, which is why nothing of it is touched before the program asks for it.

{verdicts}

The differences are medians over the rounds: in each round every kind of start is run once, in a new order, and compared
with the bare interpreter of the same round. In brackets is the 95 % interval of that median (bootstrap). The row
"bare again" is a second environment without the package: a difference of that size means nothing. "another .pth file"
is one without the package and with a .pth file of somebody else's that does nothing: Python has to read it too. "10 –
90 %" is the range without the fastest and the slowest tenth. "Our modules" are those of this package that the start
imports, "other modules" those of the standard library that a bare one does not.
{tables}
## How it was measured

- {machine}
- {system}
- load average {load_before} before and {load_after} after; one start at a time
- {starts} starts of each kind on each Python, after {warm_up} that do not count
- `python -c pass` (or `-c "import tfls_patch"`) in virtual environments of the standard library, in which Python
  executes each .pth file twice; with byte code compiled, and no other package installed
- measured from outside, from the start of the process to its end, on the wall clock

`python3 dev.py nox -s "benchmarks(script='start_up')"` measures on your machine and rewrites this page.
"""


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", type=Path, help="the wheel to install (default: built for the run)")
    parser.add_argument("--python", action="append", metavar="VERSION", help="default: 3.13 and 3.6")
    parser.add_argument("--starts", type=int, default=300, help="starts of each kind (default: 300)")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page to write (default: docs/start-up.md)")
    parser.add_argument("--quick", action="store_true", help="a few starts, to see whether it works; writes no page")
    common.add_busy(parser)
    options = parser.parse_args(arguments)
    # Noise hides a small difference, and "not measurably longer" would then say more of the machine than of us.
    common.refuse_a_busy_machine(parser, options)
    if options.quick:
        options.starts = 10
    wheel, out = options.wheel and options.wheel.resolve(), options.out.resolve()
    before = common.load()
    sections, verdicts = [], []
    with tempfile.TemporaryDirectory(prefix="start_up_") as folder:
        wheel = wheel or _build(Path(folder))
        os.chdir(folder)  # `python -c` imports from the current folder first
        for version in options.python or ["3.13", "3.6"]:
            results = measure(_kinds(Path(folder) / version, version, wheel), options.starts)
            full = run(results[0].kind.python, "-c", "import platform; print(platform.python_version())").strip()
            sections.append("\n## Python %s\n\n%s\n" % (full, _table(results)))
            verdict = "- **Python %s.** %s" % (full, _verdict(results))
            verdicts.append(textwrap.fill(verdict, 120, subsequent_indent="  "))
            print(sections[-1] + verdicts[-1], flush=True)
        os.chdir(str(ROOT))
    page = TEXT.format(
        verdicts="\n".join(verdicts),
        tables="".join(sections),
        machine=common.machine(),
        system=common.system(),
        load_before=before,
        load_after=common.load(),
        starts=options.starts,
        warm_up=WARM_UP,
    )
    if not options.quick:
        out.write_text(page, encoding="utf-8")
        print("wrote %s; load average %s before, %s after" % (out, before, common.load()))
    return 0


def _build(folder):
    uv("build", "--quiet", "--out-dir", folder / "dist", copy_of_source(folder / "source"))
    return next((folder / "dist").glob("*.whl"))


def _kinds(folder, version, wheel):
    """Make the environments, and return the kinds of start; the first is what the others are compared with."""
    bare = Environment(folder / "bare", version, "--without-pip").python
    again = Environment(folder / "again", version, "--without-pip").python
    with_package = Environment(folder / "installed", version, "--without-pip")
    with_package.install(wheel)
    installed = with_package.python
    run(installed, "-m", "compileall", "-q", _site_packages(installed))
    other = Environment(folder / "other", version, "--without-pip").python
    (_site_packages(other) / "other.pth").write_text("# a comment\n")
    return [
        Kind("bare: not installed", bare, "pass", {}),
        Kind("bare again", again, "pass", {}),
        Kind("another .pth file, a comment", other, "pass", {}),
        Kind("installed, `TFLS_PATCH` not set", installed, "pass", {}),
        Kind("installed, `TFLS_PATCH=0`", installed, "pass", {"TFLS_PATCH": "0"}),
        Kind("installed, `TFLS_PATCH=1`", installed, "pass", {"TFLS_PATCH": "1"}),
        Kind("installed, `import tfls_patch`", installed, "import tfls_patch", {}),
    ]


def _site_packages(python):
    return next(python.parent.parent.glob("lib/python*/site-packages"))


def measure(kinds, starts):
    """Start each kind that often, in turns, and return a `Result` for each."""
    order = random.Random(SEED)
    times = {kind.name: [] for kind in kinds}
    for round_ in range(WARM_UP + starts):
        for kind in order.sample(kinds, len(kinds)):
            took = _start(kind)
            if round_ >= WARM_UP:
                times[kind.name].append(took)
    modules = {kind.name: _modules(kind) for kind in kinds}
    bare = modules[kinds[0].name]
    results = []
    for kind in kinds:
        ours = {name for name in modules[kind.name] if name.split(".")[0] == "tfls_patch"}
        results.append(Result(kind, times[kind.name], len(ours), len(modules[kind.name] - ours - bare)))
    return results


def _environ(kind):
    return dict({"PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1"}, **kind.env)


def _start(kind):
    """Return the milliseconds that one start takes."""
    command = [str(kind.python), "-c", kind.code]
    begin = time.perf_counter()
    _, status = os.waitpid(os.posix_spawn(command[0], command, _environ(kind)), 0)
    took = time.perf_counter() - begin
    assert status == 0, (command, status)
    return took * 1000


def _modules(kind):
    """Return the names of the modules that are there after such a start."""
    code = kind.code + "\nimport sys\nnames = sorted(sys.modules)\nimport json\nprint(json.dumps(names))"
    return set(json.loads(run(kind.python, "-c", code, env=_environ(kind))))


def _difference(result, bare):
    """Return the median of the differences within the rounds, and its 95 % interval."""
    differences = [one - other for one, other in zip(result.times, bare.times)]
    draw = random.Random(SEED)
    medians = sorted(statistics.median(draw.choices(differences, k=len(differences))) for _ in range(2000))
    return statistics.median(differences), medians[50], medians[-51]


def _table(results):
    bare = results[0]
    lines = [
        "| start | median, ms | 10 – 90 %, ms | difference, ms | ratio | our modules | other modules |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for result in results:
        middle = statistics.median(result.times)
        tenths = statistics.quantiles(result.times, n=10)
        difference = "" if result is bare else "%+.2f (%+.2f to %+.2f)" % _difference(result, bare)
        lines.append(
            "| %s | %.2f | %.2f – %.2f | %s | %.3f | %d | %d |"
            % (result.kind.name, middle, tenths[0], tenths[-1], difference, middle / statistics.median(bare.times),
               result.ours, result.others)  # fmt: skip
        )
    return "\n".join(lines)


def _verdict(results):
    """Say in words what the numbers allow to be said, and no more."""
    bare, again, other, unset, _, armed, _ = results
    noise_low, noise_high = _difference(again, bare)[1:]
    middle, low, high = _difference(unset, bare)
    is_longer = low > max(0, noise_high)
    said = "measurably longer than without it"
    if not is_longer:
        said = "not measurably longer (less than %.2f ms would not show) than without it" % max(high, noise_high)
    return (
        "With the package installed and `TFLS_PATCH` not set, a start is %s: %+.2f ms (%+.2f to %+.2f) "
        "on %.1f ms. With a .pth file that does nothing it is %+.2f ms, and two environments without any differ by "
        "%+.2f to %+.2f ms. With `TFLS_PATCH=1` it is %+.1f ms."
    ) % (
        (said, middle, low, high, statistics.median(bare.times))
        + (_difference(other, bare)[0], noise_low, noise_high, _difference(armed, bare)[0])
    )


if __name__ == "__main__":
    sys.exit(main())
