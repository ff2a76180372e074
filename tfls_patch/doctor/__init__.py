"""``python -m tfls_patch doctor``: the whole chain from the interpreter to an overflow, link by link.

Each check is one line: what was found, and what to do where that is not as it should be. Nothing is installed, written
or changed; only the doctor's own process imports TensorFlow.
"""

import contextlib
import json
import os
import sys
import warnings

from tfls_patch._version import __version__
from tfls_patch.doctor import checks, proof
from tfls_patch.doctor._finding import FAIL, NOTE, OK, WARN

#: In this order: a link is of no use if one before it is broken.
CHECKS = (
    checks.interpreter,
    checks.variables,
    checks.start_up_file,
    checks.dependencies,
    checks.tensorflow,
    checks.keras,
    checks.pins,
    checks.targets,
    checks.other_patchers,
    checks.bounds,
    proof.overflows,
    checks.precision,
)


def add_arguments(parser):
    """Adds the command's options to an argparse parser."""
    parser.add_argument("--json", action="store_true", help="the same for programs")


def run(options):
    """Runs every check and prints what it found; returns the exit status: 0 healthy, 1 not active."""
    findings = []
    if not options.json:
        print("tfls_patch %s in %s" % (__version__, os.path.dirname(os.path.dirname(__file__))), flush=True)
    for check in CHECKS:
        for finding in _outcome(check):
            findings.append(finding)
            if not options.json:  # at once: importing TensorFlow takes its time
                print(finding, flush=True)
    healthy = all(finding.state != FAIL for finding in findings)
    if options.json:
        print(json.dumps(_as_dict(findings, healthy), indent=2))
    else:
        print(_verdict(findings, healthy))
    return 0 if healthy else 1


def _outcome(check):
    """What a check finds.

    What other packages print meanwhile goes to stderr, so that stdout is the report alone. Their warnings are dropped;
    ours say what is in the report anyway.
    """
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(check())


def _as_dict(findings, healthy):
    return {"version": __version__, "healthy": healthy, "checks": [dict(finding._asdict()) for finding in findings]}


def _verdict(findings, healthy):
    counts = {state: sum(finding.state == state for finding in findings) for state in (FAIL, WARN, NOTE, OK)}
    if not healthy:
        first = next(finding for finding in findings if finding.state == FAIL)
        return "NOT ACTIVE: %d of %d checks failed. Begin with the first of them: %s" % (
            counts[FAIL],
            len(findings),
            first.name,
        )
    remarks = " (%d to look at)" % counts[WARN] if counts[WARN] else ""
    return "healthy%s. %s" % (remarks, checks.who_is_patched())
