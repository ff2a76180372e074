"""Should the loss scale grow at once when all gradients are 0? Measures it, and writes ``docs/underflow.md``.

    python benchmarks/underflow.py            # all of it, some minutes on two cores
    python benchmarks/underflow.py --quick    # one seed and few steps, to see that it runs; writes nothing

It needs TensorFlow, tf_keras and scikit-learn, and measures the ``tfls_patch`` of this checkout. Seeds are fixed and
operations deterministic, so on one machine it gives the same numbers again.
"""

import argparse
import os
import pathlib
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import tensorflow as tf  # noqa: E402  (it reads the variables above)
import tf_keras as keras  # noqa: E402

import tfls_patch  # noqa: E402
import underflow_report  # noqa: E402
from underflow_situations import SITUATIONS, plan  # noqa: E402
from underflow_training import ARMS, Trainer  # noqa: E402

PAGE = ROOT / "docs" / "underflow.md"

STEPS = 2000
SEEDS = range(1, 5)
QUICK_STEPS = 200
QUICK_SEEDS = range(1, 2)

#: The models whose gradients are looked at under one scale after the other, and the scales' exponents.
PROBED = ["dense", "conv", "recurrent", "float16 variables"]
EXPONENTS = [*range(-24, -9), -8, -4, 0]


def main(arguments=None):
    """Runs the study."""
    options = _options(arguments)
    tf.get_logger().setLevel("ERROR")
    tf.config.experimental.enable_op_determinism()
    tfls_patch.apply()
    steps, seeds = (QUICK_STEPS, QUICK_SEEDS) if options.quick else (STEPS, SEEDS)
    started = time.time()
    lost = lost_at_each_scale(seeds)
    results = train_all(steps, seeds)
    study = underflow_report.Study(results, lost, steps, seeds)
    print("\n%s\n\n%.1f minutes" % (underflow_report.tables(study), (time.time() - started) / 60))
    page = options.out or (None if options.quick else PAGE)
    if page:
        pathlib.Path(page).write_text(underflow_report.page(study), encoding="utf-8")
        print("wrote %s" % page)


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, few steps, no page unless --out is given")
    parser.add_argument("--out", help="where to write the page (default: docs/underflow.md)")
    return parser.parse_args(arguments)


def train_all(steps, seeds):
    """Trains every situation under every arm.

    Returns:
        A dict: (key of the situation, name of the arm) -> list of `Outcome`, one for each seed.
    """
    results = {}
    for situation in SITUATIONS:
        starts = [(plan(situation, seed, steps), initial_weights(situation, seed)) for seed in seeds]
        for arm in ARMS:
            begun = time.time()
            trainer = Trainer(situation, arm)
            results[situation.key, arm.name] = [trainer.run(*start) for start in starts]
            done = len(results), len(SITUATIONS) * len(ARMS), situation.key, arm.name, time.time() - begun
            print("%3d of %d  %-24s %-34s %5.1f s" % done, flush=True)
    return results


def lost_at_each_scale(seeds):
    """Looks at the gradients of the first batch at the initial weights, under one fixed scale after the other.

    Returns:
        A dict: (key of the situation, exponent of the scale) -> list of `Lost`, one for each seed.
    """
    float32, float16 = ARMS[:2]
    lost = {}
    for situation in SITUATIONS:
        if situation.key not in PROBED:
            continue
        print("gradients under fixed scales: %s" % situation.key, flush=True)
        starts = [(plan(situation, seed, 1), initial_weights(situation, seed)) for seed in seeds]
        trainer = Trainer(situation, float32)
        truths = [trainer.gradients_of_first_batch(*start) for start in starts]
        trainer = Trainer(situation, float16)
        for exponent in EXPONENTS:
            found = [trainer.gradients_of_first_batch(*start, scale=2.0**exponent) for start in starts]
            lost[situation.key, exponent] = list(map(underflow_report.compare, found, truths))
    return lost


def initial_weights(situation, seed):
    """Draws the weights with which every arm starts; in float32, whatever the arm computes in."""
    keras.mixed_precision.set_global_policy("float32")
    keras.utils.set_random_seed(seed)
    return situation.model().get_weights()


if __name__ == "__main__":
    main()
