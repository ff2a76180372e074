"""Turns what ``underflow.py`` measured into ``docs/underflow.md``.

The words are written by hand, here; every number in them is put in from the results. Each finding carries the condition
under which its words are true, and is marked in the page if a later run does not confirm it.
"""

import collections
import os
import platform
import re
import textwrap
from importlib import metadata

import numpy as np

from underflow_situations import BURST_LENGTH, BURST_START, SITUATIONS
from underflow_training import ARMS, CAUSED_WITHIN, GROWTH_INTERVAL, REGROW_STEPS

Study = collections.namedtuple("Study", "results lost steps seeds")
Study.__doc__ = """All that was measured.

Attributes:
    results: (key of the situation, name of the arm) -> list of `Outcome`.
    lost: (key of the situation, exponent of the scale) -> list of `Lost`.
    steps: How many steps each run had, not counting a burst.
    seeds: The seeds.
"""

Lost = collections.namedtuple("Lost", "zero_share cosine")
Lost.__doc__ = """What a scale does to gradients.

Attributes:
    zero_share: The share of their entries that is exactly 0.
    cosine: Of the angle to the gradients in float32; NaN if all entries are 0.
"""

_Finding = collections.namedtuple("_Finding", "holds words")

_CLASSIFIERS = ["dense", "conv", "recurrent"]
_BURST_KEYS = ["dense", "conv", "recurrent", "float16 variables"]


def compare(found, truth):
    """Returns the `Lost` of gradients, flat arrays, against those in float32."""
    lengths = np.linalg.norm(found) * np.linalg.norm(truth)
    return Lost(float(np.mean(found == 0)), float(found @ truth / lengths) if lengths else float("nan"))


def page(study):
    """Returns the page as Markdown."""
    parts = [
        _introduction(study),
        "## What we found",
        *_findings(study),
        _conclusion(study),
        tables(study),
        _colophon(study),
    ]
    # Powers of two are plain text up to here, so that the tables can be read on a terminal.
    text = re.sub(r"2\^(-?\d+)", r"2<sup>\1</sup>", "\n\n".join(parts))
    return "\n\n".join(map(_wrapped, text.split("\n\n"))) + "\n"


def _wrapped(paragraph):
    """Fills the lines of prose anew, now that numbers are in it; headings, tables and code stay as they are."""
    if paragraph.startswith(("#", "|", "```")):
        return paragraph
    if "\n- " in paragraph:
        return "\n".join(map(_wrapped, re.split(r"\n(?=- )", paragraph)))
    indent = " " * len(re.match(r"\d+\. |- |", paragraph).group())
    words = " ".join(paragraph.split())
    return textwrap.fill(words, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def tables(study):
    """Returns all tables as Markdown."""
    parts = ["## Results", _summary_of_losses(study), _summary_of_steps(study)]
    parts += [_details(study, situation) for situation in SITUATIONS]
    parts.append(_loss_of_precision(study))
    return "\n\n".join(parts)


# --- Words ---------------------------------------------------------------------------------------------------------


def _introduction(study):
    return _INTRODUCTION.format(
        n=GROWTH_INTERVAL,
        regrow=REGROW_STEPS,
        steps=study.steps,
        seeds=len(study.seeds),
        burst=BURST_LENGTH,
        start=BURST_START,
        situations=len(SITUATIONS),
    )


_INTRODUCTION = """# Underflow: should gradients of 0 raise the loss scale at once?

This page is written by [`benchmarks/underflow.py`](../benchmarks/underflow.py); do not edit it. The words are in
`benchmarks/underflow_report.py`.

An overflow lowers the loss scale at once. It has been proposed to treat underflow in the same way: if all gradients of
a finite step are exactly 0 while the scale is below 1, the scale is probably too low, so raise it without waiting for
the growth interval. This is the *zero rule*:

```text
all gradients are finite, all are 0, scale < 1:   take the step;  good = 0;  scale = min(scale * k, 1)
```

It can help, where the scale was pushed too low. It can also harm, where gradients are 0 for a good reason. Both were
measured, in {situations} situations: small models on real data, in `mixed_float16` (one in pure float16), under a
dynamic loss scale that starts at 2^15. Each run has {steps} steps; some have a burst of {burst} NaN batches besides,
after the first {start}. Each arm ran with {seeds} seeds, and for each seed all arms start from the same weights and see
the same batches.

| arm | the rule |
| --- | --- |
| float32 | no loss scale; steps with NaN gradients are skipped |
| floor 1 | stock: `min_scale` is 1, and the scale doubles after {n} good steps |
| wait | `tfls_patch`, with the floor of the situation; the scale doubles after {n} good steps |
| zero rule | besides, the zero rule |
| zero rule, loss not 0 | besides, the zero rule, but only if the loss of the step is not 0 |
| regrow {regrow} | while the scale is below 1, it doubles after {regrow} good steps |
| regrow {regrow} + zero rule | both |
| regrow {regrow} + zero rule, loss not 0 | both, the zero rule only if the loss is not 0 |

The rules were put around the patched `update` of the optimizer's loss scale. The package itself has no zero rule."""


def _findings(study):
    lines = []
    for number, finding in enumerate(_all_findings(_Numbers(study)), 1):
        mark = "" if finding.holds else "(This run did NOT confirm the following.) "
        lines.append("%d. %s%s" % (number, mark, finding.words))
    return lines


def _all_findings(of):
    return [
        _finding_too_early(of),
        _finding_worse(of),
        _finding_default_floor(of),
        _finding_blind(of),
        _finding_starved(of),
        _finding_slowed(of),
        _finding_loss(of),
        _finding_regrow(of),
        _finding_both(of),
    ]


def _finding_too_early(of):
    first = {key: of.first_scale_not_of_zeros(key) for key in _CLASSIFIERS}
    after = [of.lost(key, exponent) for key, exponent in first.items()]
    return _Finding(
        min(each.zero_share for each in after) > 0.5 and max(each.cosine for each in after) < 0.7,
        "**It stops too early.** The zero rule lifts the scale until a single entry of a gradient is not 0, and no"
        " further. In the first batch of the classifiers (%s) that is at a scale of %s. There, %s of the entries are"
        " still 0, and the direction of what is left has a cosine of %s with that of float32."
        % (
            ", ".join(_CLASSIFIERS),
            _span([2.0**exponent for exponent in first.values()], _scale),
            _span([each.zero_share for each in after], _percent),
            _span([each.cosine for each in after], "%.2f".__mod__),
        ),
    )


def _finding_worse(of):
    keys = ["conv", "recurrent"]
    return _Finding(
        all(not of.loss(key, "zero rule") <= of.loss(key, "wait") for key in keys),
        "**Where it stops, training can be worse than standing still.** After a burst with a floor of 2^-24, waiting"
        " leaves the weights as they are, since every gradient is 0. With the zero rule they move in a wrong direction"
        " instead. %s The dense nets gain something: %s."
        % (
            " ".join(
                "Training loss of the %s net: %s when waiting, %s with the rule, %s in float32."
                % (key, of.shown(key, "wait"), of.shown(key, "zero rule"), of.shown(key, "float32"))
                for key in keys
            ),
            "; ".join(
                "%s, %s to %s, float32 %s"
                % (key, of.shown(key, "wait"), of.shown(key, "zero rule"), of.shown(key, "float32"))
                for key in ["dense", "float16 variables"]
            ),
        ),
    )


def _finding_default_floor(of):
    keys = [key + ", default floor" for key in _CLASSIFIERS]
    fired = max(of.mean(key, arm.name, "zero_growths") for key in keys for arm in ARMS)
    losses = [of.loss(key, "wait") / of.loss(key, "float32") for key in keys]
    regrow = "regrow %d" % REGROW_STEPS
    return _Finding(
        fired == 0
        and max(losses[:2]) < 1.2
        and losses[2] > 1.5
        and of.loss(keys[2], regrow) < 1.1 * of.loss(keys[2], "float32"),
        "**At the default floor it never fires, though gradients can be wrong there too.** After a burst the scale is"
        " at 2^-14, and %s of the entries are 0, but never all. The dense and the convolutional net do not suffer:"
        " training losses %s and %s when waiting, %s and %s in float32. The recurrent one does: %s when waiting, %s in"
        " float32, %s with a floor of 1. Its loss is a mean over more entries, so each gradient is smaller; of the"
        " gradient of its output bias only the negative entries, those of the right letters, are left. The zero rule"
        " does nothing about it; with a growth interval of %d below 1 the loss is %s."
        % (
            (_list(_CLASSIFIERS, [of.mean(key, "wait", "zero_share") for key in keys], _percent),)
            + tuple(of.shown(key, arm) for arm in ["wait", "float32"] for key in keys[:2])
            + tuple(of.shown(keys[2], arm) for arm in ["wait", "float32", "floor 1"])
            + (REGROW_STEPS, of.shown(keys[2], regrow))
        ),
    )


def _finding_blind(of):
    fired = max(of.mean(key, arm.name, "zero_growths") for key in ["L2", "large loss"] for arm in ARMS)
    return _Finding(
        fired == 0 and of.loss("L2", "zero rule") > 5 * of.loss("L2", "float32"),
        "**It is blind as soon as one gradient is computed in float32.** An L2 penalty is enough: the rule fired %d"
        " times, and the training loss stayed at %s (float32: %s) although all that comes from the data was 0. In the"
        " model with the large loss, which needs a low scale, it did not fire either."
        % (fired, of.shown("L2", "zero rule"), of.shown("L2", "float32")),
    )


def _finding_starved(of):
    key = "masked 80 %"
    useful = of.mean(key, "zero rule", "useful")
    return _Finding(
        useful < 0.05 * of.mean(key, "wait", "useful"),
        "**It can bring back the very fault that `tfls_patch` is there to cure.** With 80 %% of the batches masked, the"
        " scale grows during the masked ones, so each real batch meets a scale that is too high and is skipped. %s of"
        " %s real batches were used, against %s when waiting. Training loss: %s, against %s."
        % (
            _count(useful),
            _count(useful + of.mean(key, "zero rule", "skipped")),
            _count(of.mean(key, "wait", "useful")),
            of.shown(key, "zero rule"),
            of.shown(key, "wait"),
        ),
    )


def _finding_slowed(of):
    keys = ["masked 30 %", "hinge", "clipped", "ReLU output"]
    shares = [of.skipped_share(key, "zero rule") for key in keys]
    waits = [of.skipped_share(key, "wait") for key in keys]
    growths, caused = (sum(of.mean(key, "zero rule", field) for key in keys) for field in ["zero_growths", "caused"])
    return _Finding(
        min(shares) > 3 * max(waits) and all(of.loss(key, "zero rule") > of.loss(key, "wait") for key in keys),
        "**Where gradients are 0 for a good reason now and then, it costs a large part of the training.** Of the"
        " batches with something to learn it made the optimizer skip %s, against %s when waiting. For each hundred"
        " growths there were %s overflows within the next %d steps. Training losses: %s"
        " (the spreads of the last overlap)."
        % (
            _list(keys, shares, _percent),
            _list(keys, waits, _percent),
            _count(round(100 * caused / growths)),
            CAUSED_WITHIN,
            "; ".join("%s %s, against %s" % (key, of.shown(key, "zero rule"), of.shown(key, "wait")) for key in keys),
        ),
    )


def _finding_loss(of):
    arm, harmless = "zero rule, loss not 0", ["masked 30 %", "masked 80 %", "hinge"]
    share, wait = of.skipped_share("clipped", arm), of.skipped_share("clipped", "wait")
    return _Finding(
        all(of.mean(key, arm, "zero_growths") == 0 for key in harmless) and share > 5 * wait,
        "**Looking at the loss as well is better, and not enough.** Masked batches and kept margins have a loss of 0,"
        " so the rule does no harm there. Clipped losses and dead ReLUs are not 0. Of the batches with something to"
        " learn under the clipped loss, %s are skipped, against %s when waiting (training loss %s, against %s); in the"
        " net that dies, %s steps, against %s. In `ReLU output` the mean loss (%s, against %s) depends on how many nets"
        " die: %d of %d in float32, %d when waiting, %d with this rule. The early stop is the same. And"
        " `update`, where such a rule would be, is given gradients, not the loss."
        % (
            _percent(share),
            _percent(wait),
            of.shown("clipped", arm),
            of.shown("clipped", "wait"),
            _count(of.mean("dying ReLU", arm, "skipped")),
            _count(of.mean("dying ReLU", "wait", "skipped")),
            of.shown("ReLU output", arm),
            of.shown("ReLU output", "wait"),
            of.died("ReLU output", "float32"),
            len(of.study.seeds),
            of.died("ReLU output", "wait"),
            of.died("ReLU output", arm),
        ),
    )


def _finding_regrow(of):
    keys, arm = _BURST_KEYS + ["L2"], "regrow %d" % REGROW_STEPS
    harmed = ["large loss", "masked 30 %", "masked 80 %", "hinge"]
    extra = [of.mean(key, arm, "skipped") - of.mean(key, "wait", "skipped") for key in harmed]
    return _Finding(
        all(of.loss(key, arm) < of.loss(key, "wait") and of.mean(key, arm, "final_scale") == 1 for key in keys)
        and max(extra) < 50,
        "**A shorter growth interval below 1 does what the zero rule is meant to do.** It passes through the zone of"
        " wrong gradients without an end in it, needs no zeros to be seen, and works with the L2 penalty. Training"
        " losses after the burst: %s. Its price, where the scale has to stay below 1: %s more skipped steps of %d."
        % (
            "; ".join(
                "%s %s (waiting %s, float32 %s)"
                % (key, of.shown(key, arm), of.shown(key, "wait"), of.shown(key, "float32"))
                for key in keys
            ),
            _span(extra, _count),
            of.study.steps,
        ),
    )


def _finding_both(of):
    one, both = "regrow %d" % REGROW_STEPS, "regrow %d + zero rule" % REGROW_STEPS
    saved = [of.mean(key, one, "all_zero") - of.mean(key, both, "all_zero") for key in _BURST_KEYS]
    return _Finding(
        min(saved) > 0 and of.mean("masked 80 %", both, "useful") < 0.05 * of.mean("masked 80 %", one, "useful"),
        "**On top of it the zero rule gains a little and keeps its dangers.** It saves %s steps of zeros after a burst"
        " with a floor of 2^-24: training losses %s. With a floor that is not far too low there is nothing to save."
        " With masks and margins it does the same harm as alone, or, if it looks at the loss, with clipped losses."
        % (
            _span(saved, _count),
            "; ".join("%s %s, from %s" % (key, of.shown(key, both), of.shown(key, one)) for key in _BURST_KEYS),
        ),
    )


def _conclusion(study):
    confirmed = all(finding.holds for finding in _all_findings(_Numbers(study)))
    return _CONCLUSION.format(regrow=REGROW_STEPS) if confirmed else _NO_CONCLUSION


_CONCLUSION = """## Conclusion

**The zero rule is not worth shipping, not even as an option.** The proposal takes "all gradients are 0" as the
counterpart of "a gradient is infinite". It is not. One infinite entry spoils a step, so the first one is worth a
reaction. Entries vanish one by one; when the last is gone, many steps have been spoiled already. As an alarm the rule
comes too late, and as a cure it stops too early. Nor can it tell underflow from a batch that has nothing to teach; then
it makes the optimizer skip the batches that have.

What speaks for it: together with a shorter growth interval, after a burst and with a floor that is far too low, it
saves the steps in which nothing at all is learned. A floor that is not too low saves them as well, and without the
risk.

Instead of the rule:

- Keep `min_scale` where the gradients of the model survive. The default of 2^-14 is not such a place for every model.
- If the scale can be pushed down by a burst, shorten the growth interval below 1. With {regrow} steps the scale came
  back to 1 after each burst, and training went on.

These are small models on a CPU. Whether large models meet situations that favour the rule is not known."""

_NO_CONCLUSION = """## Conclusion

None: this run did not confirm all of the findings, see the marks above."""


def _colophon(study):
    return """## How it was measured

On {machine}, with Python {python}, TensorFlow {tensorflow}, tf_keras {tf_keras}, NumPy {numpy} and scikit-learn
{sklearn}. Steps: {steps}; seeds: {seeds}. Data: the digits and the diabetes set that come with scikit-learn, and the
text of this repository's LICENSE; a fifth is held out for validation. Pieces of text overlap, so the validation loss of
the recurrent nets says no more than their training loss.

Models, optimizers and losses are in `benchmarks/underflow_situations.py`, the rules in
`benchmarks/underflow_training.py`. To repeat it, with TensorFlow, tf_keras and scikit-learn installed:

```sh
python benchmarks/underflow.py
```

Seeds are fixed and operations deterministic. Other machines and versions give somewhat different digits.""".format(
        machine=_machine(),
        python=platform.python_version(),
        tensorflow=_version("tensorflow", "tensorflow-cpu"),
        tf_keras=_version("tf_keras"),
        numpy=_version("numpy"),
        sklearn=_version("scikit-learn"),
        steps=study.steps,
        seeds=" ".join(map(str, study.seeds)),
    )


def _machine():
    return "%d cores of an %s, %s %s, no GPU" % (os.cpu_count(), _processor(), platform.system(), platform.machine())


def _processor():
    try:
        with open("/proc/cpuinfo") as file:
            return re.search(r"model name\s*: (.*)", file.read()).group(1).strip()
    except (OSError, AttributeError):
        return platform.processor() or "unknown processor"


def _version(*distributions):
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return "unknown"


# --- Tables --------------------------------------------------------------------------------------------------------


def _summary_of_losses(study):
    of = _Numbers(study)
    rows = [[situation.key] + [of.shown(situation.key, arm.name) for arm in ARMS] for situation in SITUATIONS]
    return "### Training loss at the end, mean of the seeds\n\n" + _table(["situation"] + _names(), rows)


def _summary_of_steps(study):
    of = _Numbers(study)
    rows = [
        [situation.key] + [_count(of.mean(situation.key, arm.name, "useful")) for arm in ARMS]
        for situation in SITUATIONS
    ]
    heading = "### Steps that were taken with gradients that are not all 0, mean of the seeds\n\n"
    return heading + _table(["situation"] + _names(), rows)


def _names():
    return [arm.name for arm in ARMS]


_DETAILS = [
    ("training loss", "train_loss", lambda values: _with_spread(values)),
    ("validation loss", "validation_loss", lambda values: _with_spread(values)),
    ("skipped", "skipped", lambda values: _count(np.mean(values))),
    ("all 0", "all_zero", lambda values: _count(np.mean(values))),
    ("entries 0", "zero_share", lambda values: _percent(np.mean(values))),
    ("growths by zero rule", "zero_growths", lambda values: _count(np.mean(values))),
    ("overflows after", "caused", lambda values: _count(np.mean(values))),
    ("lowest scale", "lowest_scale", lambda values: _span(values, _scale)),
    ("final scale", "final_scale", lambda values: _span(values, _scale)),
]


def _details(study, situation):
    rows = []
    for arm in ARMS:
        outcomes = study.results[situation.key, arm.name]
        cells = [show([getattr(outcome, field) for outcome in outcomes]) for _, field, show in _DETAILS]
        rows.append([arm.name] + cells)
    words = "%s Designed to show %s." % (situation.why, situation.designed_for)
    if situation is SITUATIONS[0]:
        words += "\n\n" + _LEGEND % CAUSED_WITHIN
    head = ["arm"] + [name for name, _, _ in _DETAILS]
    return "### %s: %s\n\n%s\n\n%s" % (situation.key, situation.title, words, _table(head, rows))


_LEGEND = """Losses are means of the seeds, with the lowest and the highest; they are not multiplied by the factor of a
large loss. *skipped*: steps whose gradients overflowed, without the burst itself. *all 0*: steps that were taken though
every gradient was 0. *entries 0*: the share of the entries of the gradients that is exactly 0, over the other steps;
that of float32 is there for comparison. *overflows after*: skipped steps that come within %d steps of a growth by the
zero rule. Counts are means of the seeds; scales are those of the lowest and the highest seed."""


def _loss_of_precision(study):
    keys = [situation.key for situation in SITUATIONS if any(key == situation.key for key, _ in study.lost)]
    exponents = sorted({exponent for _, exponent in study.lost})
    of = _Numbers(study)
    rows = []
    for exponent in exponents:
        lost = [of.lost(key, exponent) for key in keys]
        rows.append(["2^%d" % exponent] + ["%s / %s" % (_percent(each.zero_share), _cosine(each)) for each in lost])
    return (
        "### What a low scale leaves of the gradients\n\nOf the first batch, at the initial weights: the share of"
        " entries that is exactly 0, and the cosine of the angle to the gradients in float32.\n\n"
    ) + _table(["scale"] + keys, rows)


def _table(head, rows):
    return "\n".join("| %s |" % " | ".join(cells) for cells in [head, ["---"] * len(head)] + rows)


# --- Numbers -------------------------------------------------------------------------------------------------------


class _Numbers:
    """Means over the seeds."""

    def __init__(self, study):
        self.study = study

    def mean(self, key, arm, field):
        return float(np.mean([getattr(outcome, field) for outcome in self.study.results[key, arm]]))

    def loss(self, key, arm):
        return self.mean(key, arm, "train_loss")

    def shown(self, key, arm):
        """The training loss as text; if it is NaN for some seeds, for how many."""
        return _without_nan([outcome.train_loss for outcome in self.study.results[key, arm]], _digits)

    def skipped_share(self, key, arm):
        skipped = self.mean(key, arm, "skipped")
        return skipped / (skipped + self.mean(key, arm, "useful"))

    def died(self, key, arm):
        """For how many seeds hardly any step had gradients that are not all 0."""
        return sum(outcome.useful < 0.05 * self.study.steps for outcome in self.study.results[key, arm])

    def lost(self, key, exponent):
        each = self.study.lost[key, exponent]
        return Lost(float(np.mean([one.zero_share for one in each])), float(np.mean([one.cosine for one in each])))

    def first_scale_not_of_zeros(self, key):
        """The exponent of the lowest scale at which the gradients are not all 0 for any seed."""
        exponents = [exponent for each, exponent in self.study.lost if each == key]
        return min(exponent for exponent in exponents if not np.isnan(self.lost(key, exponent).cosine))


def _without_nan(values, show_mean):
    lost = int(np.isnan(values).sum())
    if lost == len(values):
        return "NaN"
    if lost:
        return "%s, NaN for %d of %d seeds" % (_digits(np.nanmean(values)), lost, len(values))
    return show_mean(np.mean(values))


def _with_spread(values):
    return _without_nan(
        values, lambda mean: "%s (%s – %s)" % (_digits(mean), _digits(min(values)), _digits(max(values)))
    )


def _digits(value):
    return "%.3g" % value


def _count(value):
    return "%.0f" % value if value >= 10 or value == int(value) else "%.1f" % value


def _percent(share):
    if np.isnan(share):
        return "–"
    return ("%.0f %%" if share >= 0.095 or share == 0 else "%.1f %%") % (100 * share)


def _scale(value):
    return "–" if np.isnan(value) else "2^%d" % round(np.log2(value))


def _cosine(lost):
    return "–" if np.isnan(lost.cosine) else "%.2f" % lost.cosine


def _span(values, show):
    lowest, highest = show(min(values)), show(max(values))
    return lowest if lowest == highest else "%s to %s" % (lowest, highest)


def _list(keys, values, show):
    return ", ".join("%s (%s)" % (show(value), key) for key, value in zip(keys, values))
