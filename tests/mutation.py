"""Put faults into the patch modules, one at a time, and see which of them the tests find; writes docs/mutation.md.

    nox -s mutation -- --sample 40                              install the rows, and do this
    python3 tests/mutation.py 2.10=/envs/2.10/bin/python ...    with interpreters that have all but this package

A mutant is one small change: a statement or a declared target left out, a condition negated, a comparison or a pair of
functions swapped, a number changed. It is killed if a check fails with it. The checks of a module run on the rows that
load it, quickest first, and each was seen to pass without a mutant. Results are kept in a file, so a run can be
continued.
"""

import argparse
import ast
import datetime
import hashlib
import json
import queue
import random
import shutil
import subprocess
import sys
import tempfile
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import matrix

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "integration"))

from forks import Forks  # noqa: E402
from processes import environment  # noqa: E402

PAGE = ROOT / "docs" / "mutation.md"
SCENARIOS = "tests/integration/scenarios"
SEED = 1  # of the sample and of the scripts
SECONDS = 200  # that a check may take; the longest takes a tenth of it
#: Checks that choose what Keras runs on, or look at what is imported, so TensorFlow must not be there before them.
FROM_THE_START = ["revert", "conformance jax", "keras_3_backend jax"]

Mutant = namedtuple("Mutant", ["path", "line", "what", "text"])

#: For each module the rows on which it is loaded, one of each kind, and the checks that concern it.
_GENERAL = ["conformance eager", "conformance graph", "instances", "revert"]
CHECKS = {
    "tfls_patch/scaling.py": (["2.10"], ["unit scaling"] + _GENERAL),
    "tfls_patch/_rules.py": (["2.10", "2.21"], ["instances", "conformance eager", "quiet", "training eager"]),
    "tfls_patch/_traces.py": (["2.10", "2.21"], ["quiet", "training eager", "instances"]),
    "_loss_scale_update.py": (["2.10", "2.4"], ["conformance eager", "mirrored 2", "skips eager", "skips graph"]),
    "_keras_3_optimizer.py": (
        ["2.21"],
        ["conformance eager", "conformance jax", "float16", "guard 1000", "mirrored 2", "skips eager"]
        + ["keras_3_backend jax"],
    ),
    "_contrib_manager.py": (["1.14"], ["conformance graph", "skips graph"]),
    "_gradient_tape.py": (["2.2"], ["tape", "conformance eager", "float16"]),
    "_scaling_methods.py": (["2.10", "1.14"], ["float16", "conformance eager", "conformance graph"]),
    "_fixed_loss_scale.py": (["1.14"], ["construction", "revert"]),
    "_construction.py": (["2.10", "2.21"], ["construction", "revert"]),
    "tf_1_14.py": (["1.14"], _GENERAL),
    "tf_2_1_to_2_3.py": (["2.2"], ["tape"] + _GENERAL),
    "tf_2_4.py": (["2.4"], _GENERAL),
    "tf_2_8_to_2_12.py": (["2.10"], _GENERAL),
    "tf_2_13_to_2_15.py": (["2.15"], _GENERAL),
    "tf_keras_2_15_to_2_22.py": (["2.21+tf_keras"], _GENERAL),
    "tf_2_16_to_2_22.py": (["2.21"], _GENERAL),
    "keras_3.py": (["2.21"], _GENERAL),
    "_core.py": (["2.10"], _GENERAL + ["construction"]),
}

#: Before all others: whether docs/supported-versions.md still names all that is replaced, which is part of lint.
DECLARED = "declared"

_COMPARISONS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
_COMPARISONS.update({ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in"})
_NAMES = {"min": "max", "max": "min", "minimum": "maximum", "any": "all", "all": "any"}
_NAMES.update({"greater_equal": "greater", "less": "less_equal", "greater": "greater_equal", "equal": "not_equal"})
_NAMES.update({"logical_and": "logical_or", "logical_or": "logical_and"})
_OPERATORS = {ast.Mult: "/", ast.Div: "*", ast.Add: "-", ast.Sub: "+", ast.And: "or", ast.Or: "and"}


def mutants_of(path):
    """Return every mutant of a file."""
    source = (ROOT / path).read_text(encoding="utf-8")
    found = []

    def add(node, what, replacement):
        lines = source.encode().split(b"\n")
        start = sum(len(line) + 1 for line in lines[: node.lineno - 1]) + node.col_offset
        end = sum(len(line) + 1 for line in lines[: node.end_lineno - 1]) + node.end_col_offset
        text = (source.encode()[:start] + replacement.encode() + source.encode()[end:]).decode()
        found.append(Mutant(path, node.lineno, what, text))

    tree = ast.parse(source)
    in_functions = {node for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) for node in ast.walk(each)}
    for node in ast.walk(tree):
        said = ast.get_source_segment(source, node) if hasattr(node, "lineno") else ""
        first = (said or "").split("\n")[0]
        if node in in_functions and _can_go(node):
            add(node, "without `%s`" % first, "pass")
        if node not in in_functions:
            for what, replacement in _without_each_part(node, source):
                add(node, what, replacement)
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            test = ast.get_source_segment(source, node.test)
            add(node.test, "`not (%s)`" % test, "not (%s)" % test)
        if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
            left, right = (ast.get_source_segment(source, each) for each in (node.left, node.comparators[0]))
            other = _COMPARISONS[type(node.ops[0])]
            add(node, "`%s` with `%s`" % (first, other), "%s %s %s" % (left, other, right))
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS and node in in_functions:
            if not (isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)):
                left, right = (ast.get_source_segment(source, each) for each in (node.left, node.right))
                other = _OPERATORS[type(node.op)]
                add(node, "`%s` with `%s`" % (first, other), "(%s) %s (%s)" % (left, other, right))
        if isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            value = (not node.value) if isinstance(node.value, bool) else node.value + 1
            add(node, "`%s` in place of `%s`" % (value, said), repr(value))
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in _NAMES:
                function = ast.get_source_segment(source, node.func)
                other = function[: len(function) - len(name)] + _NAMES[name]
                add(node.func, "`%s` in place of `%s`" % (other, function), other)
            if name in ("where", "cond", "_cond") and len(node.args) == 3:
                _, one, other = (ast.get_source_segment(source, each) for each in node.args)
                add(node.args[1], "`%s` with both branches the other" % name, other)
    return found


def _can_go(node):
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, (ast.Constant, ast.Yield))  # docstrings stay
    return isinstance(node, (ast.Assign, ast.AugAssign, ast.Return))


def _without_each_part(node, source):
    """Yield a list, a dictionary or a sum of them without one of its parts: what is declared to be replaced."""

    def text(each):
        return ast.get_source_segment(source, each)

    def named(part):
        return "without `%s`" % " ".join(part.split())[:100]

    if isinstance(node, ast.List):
        for part in node.elts:
            rest = ", ".join(text(each) for each in node.elts if each is not part)
            yield named(text(part)), "[%s]" % rest
    elif isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values)
        items = ["%s%s" % ("%s: " % text(key) if key else "**", text(value)) for key, value in pairs]
        for item in items:
            rest = ", ".join(each for each in items if each is not item)
            yield named(item), "{%s}" % rest
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        for part, rest in ((node.left, node.right), (node.right, node.left)):
            yield named(text(part)), text(rest)


def key_of(mutant):
    return hashlib.sha256(("%s %s" % (mutant.path, mutant.text)).encode()).hexdigest()[:16]


class Checks(object):
    """Runs checks in a copy of the project, most of them in forks of a process that has TensorFlow."""

    def __init__(self, folder, pythons):
        self.folder, self.pythons = folder, pythons
        self.tree = folder / "tree"
        shutil.copytree(str(ROOT), str(self.tree), ignore=shutil.ignore_patterns(".*", "__pycache__", "build", "dist"))
        self.forks = {row: Forks(python, SECONDS, **self._variables(row)) for row, python in pythons.items()}
        self.passes = {}

    def _variables(self, row):
        variables = {"PYTHONPATH": str(self.tree), "PYTHONDONTWRITEBYTECODE": "1"}
        return dict(variables, **matrix.row(row).env)

    def close(self):
        for each in self.forks.values():
            each.close()

    def kills(self, mutant):
        """Return the check that a mutant fails, or None; and the rows on which it was tried."""
        rows, checks = _checks_of(mutant.path)
        rows = [row for row in rows if row in self.pythons]
        target = self.tree / mutant.path
        original = target.read_text(encoding="utf-8")
        for check in checks:
            for row in rows:
                if not self.passes_without(row, check):
                    continue
                target.write_text(mutant.text, encoding="utf-8")
                try:
                    if not self.run(row, check):
                        return check if check == DECLARED else "%s on %s" % (check, row), rows
                finally:
                    target.write_text(original, encoding="utf-8")
        return None, rows

    def passes_without(self, row, check):
        if (row, check) not in self.passes:
            if check.startswith("conformance"):
                self.run(row, check, "stock")
            self.passes[row, check] = self.run(row, check)
            if not self.passes[row, check]:
                print("%s fails on %s without any mutant: left out" % (check, row), flush=True)
        return self.passes[row, check]

    def run(self, row, check, part="patched"):
        """Return whether a check passes; one that hangs does not."""
        if check == DECLARED:
            command = [sys.executable, "docs/make_supported_versions.py", "--check"]
            return subprocess.run(command, cwd=str(self.tree), capture_output=True).returncode == 0
        name, _, mode = check.partition(" ")
        with tempfile.TemporaryDirectory() as folder:
            if name == "unit":
                test = "%s/tests/unit/test_%s.py" % (self.tree, mode)
                return self._run_alone(row, folder, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test)
            script = "%s/%s/%s.py" % (self.tree, SCENARIOS, name)
            arguments = [mode] if mode else []
            if name == "conformance":
                arguments += [part, str(self.folder / ("%s-%s.json" % (row, mode))), str(SEED), "30"]
            if check in FROM_THE_START:
                return self._run_alone(row, folder, script, *arguments)
            try:
                return self.forks[row].run(folder, script, arguments).returncode == 0
            except TimeoutError:
                return False

    def _run_alone(self, row, folder, *arguments):
        command, environ = [self.pythons[row], *arguments], environment(self._variables(row))
        try:
            done = subprocess.run(command, env=environ, cwd=folder, capture_output=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def _checks_of(path):
    """The rows and the checks of a module; None if it has none."""
    rows, checks = CHECKS.get(path) or CHECKS.get(Path(path).name) or ([], [])
    return (rows, [DECLARED] + checks) if rows else None


TEXT = """\
<!-- Written by tests/mutation.py. Do not edit: run `python3 dev.py nox -s mutation`. -->

# Mutation score

How many small faults in the patch modules and the update rule the tests find. Each fault (a mutant) is put in by
itself: a statement or a declared target left out, a condition negated, a comparison, an operator or a pair of functions
swapped, a number changed. It is killed if one of the checks of its module fails. (A target that is not replaced any
more is missed in the list of [Supported versions](supported-versions.md), which lint compares.)

**{killed} of {tried} are killed.** There are {all} in all; where fewer were tried, they are a random sample. Run on
TensorFlow {rows}, up to {date}.

{table}

## Survivors

{survivors}
"""

#: Why a mutant that survives does no harm: (module, start of what it is) -> reason.
EQUIVALENT = {
    ("_keras_3_optimizer.py", "`True` in place of `False`"): (
        "Only Keras 3 before float8 asks for this default: the session `keras` runs those, this one does not"
    ),
    ("_fixed_loss_scale.py", "`2.0` in place of `1.0`"): (
        "Any number that stock takes will do: the next line replaces it"
    ),
    ("_gradient_tape.py", "without `return _float16.product(tf, tensor, scale)`"): (
        "The tape asks for the gradient of the scaled loss, and never for its value"
    ),
    ("_traces.py", "without `return None`"): "A function returns None at its end anyway",
    ("_traces.py", '`not (hasattr(outer, "outer_graph"))`'): (
        "In the versions tried the graph of a branch lives as long as its function, so noting that one is enough"
    ),
}


def write(results, mutants, out):
    tried = [results[key] for key in map(key_of, mutants) if key in results]
    killed = [each for each in tried if each["killed_by"]]
    modules = sorted({each["path"] for each in tried})
    lines = ["| module | mutants | tried | killed |", "| --- | --- | --- | --- |"]
    for path in modules:
        mine = [each for each in tried if each["path"] == path]
        counts = sum(each.path == path for each in mutants), len(mine), sum(bool(each["killed_by"]) for each in mine)
        lines.append("| `%s` | %d | %d | %d |" % ((path,) + counts))
    left = [
        "- `%(path)s`, line %(line)d: %(what)s%(why)s" % dict(each, why=_why(each))
        for each in tried
        if not each["killed_by"]
    ]
    rows = [row.tf for row in matrix.ROWS if any(row.tf in each["rows"] for each in tried)]
    text = TEXT.format(
        killed=len(killed),
        tried=len(tried),
        all=len(mutants),
        rows=", ".join(rows),
        date=datetime.date.today().isoformat(),
        table="\n".join(lines),
        survivors="\n".join(left) or "None.",
    )
    out.write_text(text, encoding="utf-8")


def _why(result):
    for (path, what), why in EQUIVALENT.items():
        if result["path"].endswith(path) and result["what"].startswith(what):
            return ". " + why
    return ""


def _results(mutants, folder, pythons, jobs):
    """Try mutants, some at a time, each in a copy of the project of its own; yield each with what came of it."""
    free = queue.Queue()
    everything = []
    for number in range(jobs):
        (folder / str(number)).mkdir()
        everything.append(Checks(folder / str(number), pythons))
        free.put(everything[-1])

    def judge(mutant):
        checks = free.get()
        try:
            killed_by, rows = checks.kills(mutant)
        finally:
            free.put(checks)
        fields = {"path": mutant.path, "line": mutant.line, "what": mutant.what}
        return mutant, dict(fields, killed_by=killed_by, rows=rows)

    try:
        with ThreadPoolExecutor(jobs) as pool:
            for each in as_completed([pool.submit(judge, mutant) for mutant in mutants]):
                yield each.result()
    finally:
        for each in everything:
            each.close()


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="+", metavar="ROW=PYTHON", help="a row of tests/matrix.py and its interpreter")
    parser.add_argument("--sample", type=int, help="how many mutants to try (default: all)")
    parser.add_argument("--seed", type=int, default=SEED, help="of the sample (default: %(default)s)")
    parser.add_argument("--only", default="", help="mutants of modules with this in their path")
    parser.add_argument("--results", type=Path, default=ROOT / ".nox" / "mutation.json", help="what was found so far")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page to write (default: docs/mutation.md)")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="list the mutants and do nothing")
    options = parser.parse_args(arguments)
    pythons = dict(text.split("=", 1) for text in options.rows)
    paths = ["tfls_patch/scaling.py", "tfls_patch/_rules.py", "tfls_patch/_traces.py"]
    paths += sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tfls_patch" / "patches").glob("*.py"))
    mutants = [each for path in paths if _checks_of(path) and options.only in path for each in mutants_of(path)]
    mutants = [each for each in mutants if options.list or set(_checks_of(each.path)[0]) & set(pythons)]
    chosen = random.Random(options.seed).sample(mutants, min(options.sample or len(mutants), len(mutants)))
    if options.list:
        print("\n".join("%s:%d %s" % each[:3] for each in chosen))
        return 0
    print("%d of %d mutants, seed %d" % (len(chosen), len(mutants), options.seed), flush=True)
    results = json.loads(options.results.read_text()) if options.results.exists() else {}
    left = [each for each in chosen if key_of(each) not in results]
    with tempfile.TemporaryDirectory(prefix="mutation_") as folder:
        for done, (mutant, result) in enumerate(_results(left, Path(folder), pythons, options.jobs), 1):
            said = result["killed_by"] or "SURVIVED"
            print("%d/%d %s:%d %s: %s" % (done, len(left), mutant.path, mutant.line, mutant.what, said), flush=True)
            results[key_of(mutant)] = result
            options.results.parent.mkdir(parents=True, exist_ok=True)
            options.results.write_text(json.dumps(results))
            # After each, so that a run that is broken off leaves a page of what it found.
            write(results, mutants, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
