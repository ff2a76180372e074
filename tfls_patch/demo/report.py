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


def train_loss(result):
    """The mean loss of the last steps, NaN if one of them is."""
    last = result["loss"][-LAST_STEPS:]
    return sum(last) / len(last)


def first_applied(result):
    """The number of the first step that changed a weight, from 0, or None."""
    return result["applied"].index(True) if True in result["applied"] else None


def text(world, results, verdict):
    """Returns what is printed of one world.

    Args:
        world: A `World`.
        results: A dict of key -> what the arm returned.
        verdict: Its `Verdict`.
    """
    growth = "In both float16 arms %d good steps in a row double the scale (TensorFlow's default: 2000)."
    lines = [world.title, growth % world.growth_steps, ""]
    lines += _table([COLUMNS] + [_row(arm.name, results[key]) for key, arm in world.arms.items()])
    lines += ["", "=> " + verdict.sentence]
    lines += ["   EXPECTED, NOT SEEN: " + failure for failure in verdict.failures]
    return "\n".join(lines)


def judge(world, results):
    """Returns the `Verdict` on one world."""
    judges = {"floor": _judge_floor, "no_floor": _judge_no_floor}
    return judges[world.key](results["float32"], results["stock"], results["patched"])


def as_data(found, seed, steps, worlds, results, verdicts, notes):
    """Returns everything that was measured, ready for ``json.dumps``; NaN and infinity become None."""
    return {
        "tfls_patch": __version__,
        "tensorflow": found.tensorflow,
        "keras": found.keras,
        "seed": seed,
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


def _row(name, result):
    first = first_applied(result)
    return (
        name,
        "%.4g" % train_loss(result),
        "%.4g" % result["validation_loss"],
        "never" if first is None else "%d" % first,
        "%d of %d" % (result["applied"].count(False), len(result["applied"])),
        "-" if result["final_scale"] is None else scale_text(result["final_scale"]),
        _weights(result),
    )


def _weights(result):
    if not result["weights_finite"]:
        return "NaN"
    return "trained, finite" if result["weights_changed"] else "unchanged, bit for bit"


def _judge_floor(float32, stock, patched):
    frozen = not stock["weights_changed"] and first_applied(stock) is None
    stuck = stock["final_scale"] == 1
    if frozen and stuck:
        fate = "never took a step: its scale stands at 1 and its weights are bit for bit the initial ones"
    else:
        fate = "ended at a scale of %s, weights %s" % (scale_text(stock["final_scale"]), _weights(stock))
    return _verdict(
        "stock float16 %s; patched float16 ended %s." % (fate, _comparison(patched, float32)),
        (_forward_is_finite(float32, stock, patched), "the forward pass is finite in every step"),
        (frozen, "stock float16 never changes a weight"),
        (stuck, "stock float16 is stuck at a loss scale of 1"),
        (patched["weights_finite"], "patched float16 ends with finite weights"),
        (_gap(patched, float32) <= TOLERANCE, "patched float16 ends within %g %% of float32" % (100 * TOLERANCE)),
    )


def _judge_no_floor(float32, stock, patched):
    sentence = "stock float16 ended at a scale of %s, weights %s; patched float16 went down to %s and ended %s." % (
        scale_text(stock["final_scale"]),
        _weights(stock),
        scale_text(min(patched["scale"])),
        _comparison(patched, float32),
    )
    return _verdict(
        sentence,
        (not stock["weights_finite"], "stock float16 ends with NaN in its weights"),
        (patched["weights_finite"], "patched float16 ends with finite weights"),
        (
            _gap(patched, float32) <= TOLERANCE,
            "patched float16 ends within %g %% of float32 without the burst" % (100 * TOLERANCE),
        ),
    )


def _forward_is_finite(*results):
    return all(math.isfinite(loss) for result in results for loss in result["loss"])


def _verdict(sentence, *expectations):
    return Verdict(sentence, [text for held, text in expectations if not held])


def _gap(result, reference):
    """How far apart two validation losses are, relative; infinite if one is not finite."""
    gap = abs(result["validation_loss"] / reference["validation_loss"] - 1)
    return math.inf if math.isnan(gap) else gap


def _comparison(result, reference):
    gap = _gap(result, reference)
    return "%s float32 (validation loss %.4g against %.4g)" % (
        "within %.1f %% of" % (100 * gap) if math.isfinite(gap) else "nowhere near",
        result["validation_loss"],
        reference["validation_loss"],
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


def _arm_as_data(name, result):
    summary = {
        "name": name,
        "train_loss": train_loss(result),
        "first_applied_step": first_applied(result),
        "steps_skipped": result["applied"].count(False),
    }
    return {key: _finite_or_none(value) for key, value in dict(summary, **result).items()}


def _finite_or_none(value):
    if isinstance(value, list):
        return [_finite_or_none(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
