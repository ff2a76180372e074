"""What is said of the arms: a table and a verdict per world, and the same for programs."""

import collections
import math

from tfls_patch._report import scale_text
from tfls_patch._version import __version__

#: How far from float32 patched float16 may end.
TOLERANCE = 0.05

#: The training loss is a mean over so many steps: a single batch says little.
LAST_STEPS = 50

COLUMNS = ("arm", "train loss", "validation loss", "first applied step", "steps skipped", "final scale", "weights")

Verdict = collections.namedtuple("Verdict", ["sentence", "failures"])
Verdict.__doc__ = """What a world has shown.

Attributes:
    sentence: What was seen, in plain words.
    failures: What was expected and not seen, a list of sentences; empty if all is well.
"""


def train_loss(run):
    """The mean loss of the last steps, NaN if one of them is."""
    return _mean(run["loss"][-LAST_STEPS:])


def first_applied(run):
    """The number of the first step that changed a weight, from 0, or None."""
    return run["applied"].index(True) if True in run["applied"] else None


def text(world, results, verdict):
    """Returns what is printed of one world.

    Args:
        world: A `World`.
        results: A dict of key -> what each run of the arm returned, a list with one item a seed.
        verdict: Its `Verdict`.
    """
    growth = "In %s float16 arms %d good steps in a row double the scale (TensorFlow's default: 2000)."
    both = "both" if len(world.arms) == 3 else "all"
    lines = [world.title, growth % (both, world.growth_steps), ""]
    lines += _table([COLUMNS] + [_row(arm.name, results[key]) for key, arm in world.arms.items()])
    seeds = len(results["float32"])
    if seeds > 1:
        lines += ["", "Losses are means over %d seeds; other numbers go from the least to the greatest." % seeds]
    lines += ["", "=> " + verdict.sentence]
    lines += ["   EXPECTED, NOT SEEN: " + failure for failure in verdict.failures]
    return "\n".join(lines)


def judge(world, results):
    """Returns the `Verdict` on one world."""
    judges = {"floor": _judge_floor, "no_floor": _judge_no_floor}
    return judges[world.key](world, results)


def as_data(found, seeds, steps, worlds, results, verdicts, notes):
    """Returns everything that was measured, ready for ``json.dumps``; NaN and infinity become None."""
    return {
        "tfls_patch": __version__,
        "tensorflow": found.tensorflow,
        "keras": found.keras,
        "seeds": list(seeds),
        "steps": steps,
        "held": not any(verdict.failures for verdict in verdicts),
        "notes": notes,
        "worlds": [_world_as_data(*each) for each in zip(worlds, results, verdicts)],
    }


def _table(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return lines


def _row(name, runs):
    first = [first_applied(run) for run in runs]
    return (
        name,
        "%.4g" % _mean([train_loss(run) for run in runs]),
        "%.4g" % _validation_loss(runs),
        "never" if None in first else _span(first),
        "%s of %d" % (_span([run["applied"].count(False) for run in runs]), len(runs[0]["applied"])),
        "-" if runs[0]["final_scale"] is None else _span([run["final_scale"] for run in runs], scale_text),
        " / ".join(sorted({_weights(run) for run in runs})),
    )


def _span(values, text=str):
    low, high = min(values), max(values)
    return text(low) if low == high else "%s - %s" % (text(low), text(high))


def _weights(run):
    if not run["weights_finite"]:
        return "NaN"
    return "trained, finite" if run["weights_changed"] else "unchanged, bit for bit"


def _judge_floor(world, results):
    float32, stock, patched = results["float32"], results["stock"], results["patched"]
    frozen = all(not run["weights_changed"] and first_applied(run) is None for run in stock)
    stuck = all(run["final_scale"] == 1 for run in stock)
    if frozen and stuck:
        fate = "never took a step: its scale stands at 1 and its weights are bit for bit the initial ones"
    else:
        fate = "ended at a scale of %s, weights %s" % (_row("", stock)[-2:])
    sentence = "stock float16 %s; patched float16 ended %s." % (fate, _comparison(patched, float32))
    expectations = [
        (_forward_is_finite(results), "the forward pass is finite in every step"),
        (frozen, "stock float16 never changes a weight"),
        (stuck, "stock float16 is stuck at a loss scale of 1"),
        (all(run["weights_finite"] for run in patched), "patched float16 ends with finite weights"),
        (_gap(patched, float32) <= TOLERANCE, "patched float16 ends within %g %% of float32" % (100 * TOLERANCE)),
    ]
    if world.experiment.remedies:
        lowest = [min(run["scale"]) for run in patched]
        sentence += " Its scale went down to %s and came back to %s." % (
            _span(lowest, scale_text),
            _span([run["final_scale"] for run in patched], scale_text),
        )
        came_back = all(run["final_scale"] > low for run, low in zip(patched, lowest))
        expectations += [
            (all(0.01 <= low <= 0.0625 for low in lowest), "the scale of patched float16 goes down to 0.01 to 0.06"),
            (came_back, "the scale of patched float16 grows again"),
        ]
    return _verdict(sentence, *expectations)


def _judge_no_floor(world, results):
    float32, stock, patched = results["float32"], results["stock"], results["patched"]
    sentence = "stock float16 ended at a scale of %s, weights %s; patched float16 went down to %s and ended %s." % (
        _row("", stock)[-2:]
        + (_span([min(run["scale"]) for run in patched], scale_text), _comparison(patched, float32))
    )
    return _verdict(
        sentence,
        (not any(run["weights_finite"] for run in stock), "stock float16 ends with NaN in its weights"),
        (all(run["weights_finite"] for run in patched), "patched float16 ends with finite weights"),
        (
            _gap(patched, float32) <= TOLERANCE,
            "patched float16 ends within %g %% of float32 without the burst" % (100 * TOLERANCE),
        ),
    )


def _forward_is_finite(results):
    return all(math.isfinite(loss) for runs in results.values() for run in runs for loss in run["loss"])


def _verdict(sentence, *expectations):
    return Verdict(sentence, [text for held, text in expectations if not held])


def _mean(values):
    return sum(values) / len(values)


def _validation_loss(runs):
    return _mean([run["validation_loss"] for run in runs])


def _gap(runs, reference):
    """How far apart two mean validation losses are, relative; infinite if one is not finite."""
    gap = abs(_validation_loss(runs) / _validation_loss(reference) - 1)
    return math.inf if math.isnan(gap) else gap


def _comparison(runs, reference):
    gap = _gap(runs, reference)
    return "%s float32 (validation loss %.4g against %.4g)" % (
        "within %.1f %% of" % (100 * gap) if math.isfinite(gap) else "nowhere near",
        _validation_loss(runs),
        _validation_loss(reference),
    )


def _world_as_data(world, results, verdict):
    return {
        "key": world.key,
        "title": world.title,
        "loss_factor": world.loss_factor,
        "growth_steps": world.growth_steps,
        "bad_steps": list(world.bad_steps),
        "verdict": verdict.sentence,
        "failures": verdict.failures,
        "arms": [_arm_as_data(arm.name, results[key]) for key, arm in world.arms.items()],
    }


def _arm_as_data(name, runs):
    mean = _finite_or_none(_validation_loss(runs))
    return {"name": name, "validation_loss": mean, "runs": [_run_as_data(run) for run in runs]}


def _run_as_data(run):
    summary = {
        "train_loss": train_loss(run),
        "first_applied_step": first_applied(run),
        "steps_skipped": run["applied"].count(False),
    }
    return {key: _finite_or_none(value) for key, value in dict(summary, **run).items()}


def _finite_or_none(value):
    if isinstance(value, list):
        return [_finite_or_none(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
