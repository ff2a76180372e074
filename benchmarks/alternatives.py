"""Count the steps until training gets going, with the patch and with what is done without it; write alternatives.md.

    nox -s "benchmarks(script='alternatives')"
    ... -- --quick                     few steps and one seed; writes no page unless --out

The hourglass network of ``python -m tfls_patch demo hourglass`` is trained by each alternative from the same weights on
the same batches, in tf_keras. What is counted are steps, so the load of the machine does not matter. It needs
TensorFlow and tf_keras.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import namedtuple
from pathlib import Path

import numpy as np

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
for _name in [name for name in os.environ if name.startswith("TFLS_PATCH")]:
    del os.environ[_name]  # each arm says itself what it wants
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.append(str(ROOT / "tfls_patch" / "demo"))  # the worker is a script, and imports what is beside it

import tensorflow as tf  # noqa: E402
import tf_keras  # noqa: E402
import worker  # noqa: E402

import common  # noqa: E402
import tfls_patch  # noqa: E402
from tfls_patch._report import scale_text  # noqa: E402
from tfls_patch.demo import arms, data, networks  # noqa: E402

PAGE = ROOT / "docs" / "alternatives.md"
EXPERIMENT = arms.EXPERIMENTS["hourglass"]
#: Steps and seeds.
FULL, QUICK = (EXPERIMENT.steps, 3), (150, 1)

#: Errors of single batches jump about; the validation error is looked at as often as this.
VALIDATE_EVERY = 10

#: What is to be reached, as a share of float32's improvement.
SHARE = 0.9

#: Where the scale of this training goes down to, for those who know it beforehand.
KNOWN = 2.0**-5

Way = namedtuple("Way", "name float16 patched remedy initial switch_at", defaults=[True, False, None, None, None])
Way.__doc__ = """A way to train.

Attributes:
    name: As the table shows it.
    float16: Whether there is a loss scale.
    patched: Whether the patch is on.
    remedy: As ``worker.py`` calls it; ``static`` besides, for a loss scale that never changes.
    initial: The loss scale at the start, or None for TensorFlow's 2**15.
    switch_at: The step at which float32 becomes stock float16, by way of a checkpoint.
"""

FLOAT32 = Way("float32", float16=False)
PATCHED = Way("**patched float16**", patched=True)
WAYS = [
    FLOAT32,
    Way("stock float16"),
    PATCHED,
    Way("patched, `initial_scale=2**-5` (known beforehand)", patched=True, initial=KNOWN),
    Way("floor removed by hand", remedy="by_hand"),
    Way("subclass, scale / 1024", remedy="subclass"),
    Way("stock, static scale 1", remedy="static", initial=1.0),
    Way("stock, static scale 2^-5 (known beforehand)", remedy="static", initial=KNOWN),
    Way("stock, static scale 2^-14", remedy="static", initial=2.0**-14),
    Way("float32 for 20 steps, then a checkpoint into stock float16", switch_at=20),
    Way("float32 for 200 steps, then a checkpoint into stock float16", switch_at=200),
]

Run = namedtuple("Run", "errors skipped first final lowest last_scale")
Run.__doc__ = """What came of a way with one seed.

Attributes:
    errors: The validation error after every `VALIDATE_EVERY` steps, the one before the first step ahead of them.
    skipped: How many steps changed nothing.
    first: The first step that changed a weight, counted from 0, or None.
    final: The validation error at the end.
    lowest: The lowest loss scale that a step used, or None.
    last_scale: The last one.
"""

TEXT = """\
<!-- Written by benchmarks/alternatives.py. Do not edit: run it again. -->

# The patch, and what is done without it

How many steps a float16 training takes to get going if it needs a loss scale below 1. It is the hourglass network of
`python -m tfls_patch demo hourglass`: 3x3 convolutions, a sigmoid, and a focal loss that is summed over pixels and
images.

{table}

- **first step**: the first one that changed a weight, counted from 0. Those before it find the scale.
- **90 %**: steps until the validation error had come down by 90 % of what float32's came down by in all of its {steps}
  steps. It is looked at every {every} steps.
- **skipped**: steps that changed no weight; weights that are NaN stay so.
- **validation error**: a mean over {seeds} seeds, and beside it how far it is from float32's. Other numbers go from the
  least to the greatest.

## What it means

- Stock float16 never starts.
- The patch gives what removing the floor by hand gives, but with bounds: by hand, a long burst of NaN batches brings
  the scale to 0.
- The subclass starts {divisor:g} times lower than the others, so it needs ten halvings fewer. It has a floor as well,
  2^-10.
- A search from 2^15 costs a skipped step for each halving. Who knows the scale beforehand can tell it to the patch with
  `initial_scale`; then there is no search, and the scale goes on following the gradients. Stock raises an
  `initial_scale` below 1 to 1 at the first overflow.
- A static scale is not checked for overflow at all: one that is too high puts NaN into the weights. One that is low
  enough is as quick as float32, if it is also high enough for gradients that get smaller, for as long as it trains.
- Training in float32 at first helps if gradients have become small enough for a scale of 1 by then, and for as long as
  they stay so. Steps that overflow after the switch are skipped as in stock, and may be so for ever.

## How it was measured

{software}
"""

SOFTWARE = """
{machine}; {system}; computing on: {device}. Python {python}, TensorFlow {tensorflow}, tf_keras {tf_keras}, NumPy
{numpy}, tfls_patch {version}. RMSprop, a growth interval of {growth}; all of it took {seconds:.0f} s.
"""


class WayArm(worker.KerasArm):
    """The arm of the demonstration, with an initial loss scale, and one that can be static."""

    way = None

    def __init__(self, data_of_seed, way, float16):
        self.way = way
        remedy = way.remedy if way.remedy in ("by_hand", "subclass") else None
        super().__init__(tf, networks.Hourglass(), data_of_seed, float16, remedy)

    def _make_loss_scale(self, optimizer, growth_steps, lower):
        cls = tf_keras.mixed_precision.LossScaleOptimizer
        if self.way.remedy == "static":
            return cls(optimizer, dynamic=False, initial_scale=self.way.initial)
        if self.way.initial is not None:
            return cls(optimizer, initial_scale=self.way.initial, dynamic_growth_steps=growth_steps)
        return super()._make_loss_scale(optimizer, growth_steps, lower)

    def checkpoint(self):
        optimizer = getattr(self._optimizer, "inner_optimizer", self._optimizer)
        return tf.train.Checkpoint(model=self._model, optimizer=optimizer)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few steps and one seed")
    parser.add_argument("--out", type=Path, help="the page to write (default: docs/alternatives.md; none if --quick)")
    options = parser.parse_args(arguments)
    tf.get_logger().setLevel("ERROR")
    begin, (steps, seeds) = time.time(), QUICK if options.quick else FULL
    results = {}
    with tempfile.TemporaryDirectory(prefix="alternatives_") as folder:
        paths = [_data(folder, seed, steps) for seed in range(seeds)]
        for way in WAYS:
            results[way] = [train(way, path, folder) for path in paths]
            print("%4.0f s: %s" % (time.time() - begin, " | ".join(_row(way, results))), flush=True)
    out = options.out or (None if options.quick else PAGE)
    if out:
        out.write_text(_page(results, steps, seeds, time.time() - begin), encoding="utf-8")
        print("wrote %s" % out)
    return 0


def _data(folder, seed, steps):
    path = os.path.join(folder, "%d.npz" % seed)
    data.save(path, EXPERIMENT.network, seed, steps, EXPERIMENT.loss_factor, EXPERIMENT.growth_with_floor)
    return path


def train(way, path, folder):
    """Trains from scratch on the data of one seed and returns a `Run`."""
    (tfls_patch.apply if way.patched else tfls_patch.revert)()
    with np.load(path) as archive:
        of_seed = dict(archive)
    tf_keras.backend.clear_session()
    arm = WayArm(of_seed, way, way.float16 and way.switch_at is None)
    has_scale = way.float16 and way.switch_at is None
    errors, applied, scales = [_error(arm, of_seed)], [], []
    weights = arm.weights()
    for number, rows in enumerate(of_seed["batches"]):
        if number == way.switch_at:
            saved = arm.checkpoint().write(os.path.join(folder, "switch"))
            arm, has_scale = WayArm(of_seed, way, float16=True), True
            arm.checkpoint().read(saved).expect_partial()
            assert not worker._differ(weights, arm.weights()), "the checkpoint lost weights"
        if has_scale:
            scales.append(arm.scale())
        arm.step(of_seed["x_train"][rows], of_seed["y_train"][rows])
        before, weights = weights, arm.weights()
        applied.append(worker._differ(before, weights))
        if (number + 1) % VALIDATE_EVERY == 0:
            errors.append(_error(arm, of_seed))
    return Run(
        errors=errors,
        skipped=applied.count(False),
        first=applied.index(True) if True in applied else None,
        final=_error(arm, of_seed),
        lowest=min(scales) if scales else None,
        last_scale=arm.scale() if has_scale else None,
    )


def _error(arm, of_seed):
    return arm.error(of_seed["x_validation"], of_seed["y_validation"])


def _row(way, results):
    runs, reference = results[way], results[FLOAT32]
    curves = [(run.errors, other.errors) for run, other in zip(runs, reference)]
    shares = [common.steps_to_share(*each, every=VALIDATE_EVERY, share=SHARE) for each in curves]
    error, expected = np.mean([run.final for run in runs]), np.mean([run.final for run in reference])
    scale = "-"
    if runs[0].lowest is not None:
        ends = [_span([getattr(run, name) for run in runs], scale_text) for name in ("lowest", "last_scale")]
        scale = "%s; %s" % tuple(ends)
    return [
        way.name,
        _span([run.first for run in runs]),
        _span(shares),
        _span([run.skipped for run in runs]),
        scale,
        "%.4g (%+.1f %%)" % (error, 100 * (error / expected - 1)) if np.isfinite(error) else "NaN",
    ]


def _span(values, text=str):
    if None in values:
        return "never" if set(values) == {None} else "not always"
    low, high = text(min(values)), text(max(values))
    return low if low == high else "%s – %s" % (low, high)


def _page(results, steps, seeds, seconds):
    header = ["way", "first step", "90 %", "skipped of %d" % steps, "lowest scale; final", "validation error"]
    software = SOFTWARE.format(
        machine=common.machine(),
        system=common.system(),
        device=common.device(tf),
        python=sys.version.split()[0],
        tensorflow=tf.__version__,
        tf_keras=tf_keras.__version__,
        numpy=np.__version__,
        version=tfls_patch.__version__,
        growth=EXPERIMENT.growth_with_floor,
        seconds=seconds,
    )
    return TEXT.format(
        table=common.table(header, [_row(way, results) for way in WAYS]),
        steps=steps,
        every=VALIDATE_EVERY,
        seeds=seeds,
        divisor=1024,
        software=common.fill(software),
    )


if __name__ == "__main__":
    sys.exit(main())
