"""The main demonstration: ``python -m tfls_patch demo``.

A dense float16 network learns the value of handwritten digits, side by side in float32, in stock float16 and in patched
float16, each in a process of its own. What can be shown depends on the TensorFlow that is installed:

- A large loss, where stock has a floor of 1 (TensorFlow 1.14 to 2.15, tf_keras, tf.compat.v1): every gradient overflows
  at a scale of 1, so stock float16 never takes a step.
- A burst of NaN batches, where stock has no floor at all (Keras 3): the scale reaches 0, and the next good batch is
  divided by it.

The forward pass of the large loss is finite throughout. Were it not, no loss scale could help: such layers belong in
float32.

It prints a table and a verdict per experiment and draws ``tfls_patch_demo.png``. It needs TensorFlow, matplotlib and
scikit-learn, whose bundled digits it uses, so nothing is downloaded.
"""

import argparse
import importlib
import json
import os
import sys
import tempfile
import time

DEFAULT_STEPS = 2000
PICTURE = "tfls_patch_demo.png"

#: Exit statuses.
AS_EXPECTED, NOT_AS_EXPECTED, MISUSE = 0, 1, 2


def main(argv=None):
    """Runs the demonstration with these command line arguments and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tfls_patch demo", description=__doc__.splitlines()[0])
    add_arguments(parser)
    return run(parser.parse_args(argv))


def add_arguments(parser):
    """Adds the options of the demonstration to an ``argparse`` parser."""
    parser.add_argument("--out", default=".", metavar="DIR", help="folder for %s (default: this one)" % PICTURE)
    parser.add_argument("--json", metavar="FILE", help="write everything that was measured to FILE")
    steps, seed = "training steps (default: %(default)s)", "of batches and initial weights (default: %(default)s)"
    parser.add_argument("--steps", type=_steps, default=DEFAULT_STEPS, metavar="N", help=steps)
    parser.add_argument("--seed", type=_seed, default=0, metavar="S", help=seed)


def run(args):
    """Runs the demonstration.

    Args:
        args: What a parser with `add_arguments` returns.

    Returns:
        The exit status: 0 if everything was seen that is to be expected, 1 if not, 2 if it could not be run at all.
    """
    for package in ("sklearn.datasets", "matplotlib"):
        try:
            importlib.import_module(package)
        except ImportError as error:
            return _refuse('scikit-learn and matplotlib are needed: pip install "tfls-patch[demo]" (%s)' % error)
    try:
        _check_writable(args)
        return _demonstrate(args)
    except OSError as error:
        return _refuse(str(error))


def _demonstrate(args):
    from tfls_patch.demo import arms, figure, report

    clock = _Clock()
    try:
        found = arms.probe()
    except arms.WorkerError as error:
        return _refuse("TensorFlow and Keras are needed, and cannot be imported here.\n%s" % error)
    if arms.version_tuple(found.tensorflow) < (1, 14):
        return _refuse("TensorFlow %s is too old: dynamic loss scales came with 1.14" % found.tensorflow)

    worlds, notes = arms.plan(found, args.steps)
    total = sum(len(world.arms) for world in worlds)
    clock.say("TensorFlow %s: training %d arms, %d at a time" % (found.tensorflow, total, arms.AT_ONCE))
    try:
        with tempfile.TemporaryDirectory(prefix="tfls_patch_demo_") as folder:
            results = arms.run(worlds, args.seed, args.steps, folder, clock.count_to(total))
    except arms.WorkerError as error:
        sys.stderr.write("tfls_patch demo: %s\n" % error)
        return NOT_AS_EXPECTED

    verdicts = [report.judge(world, result) for world, result in zip(worlds, results)]
    as_expected = not any(verdict.failures for verdict in verdicts)
    if args.steps < DEFAULT_STEPS and not as_expected:
        notes.append("In fewer than %d steps, those that find the scale weigh more than is expected." % DEFAULT_STEPS)
    for world, result, verdict in zip(worlds, results, verdicts):
        print("\n" + report.text(world, result, verdict))
    for note in notes:
        print("\nNote: " + note)
    picture = os.path.join(args.out, PICTURE)
    figure.save(picture, worlds, results)
    print("\nLosses are mean squared errors of the digit's value. Picture: " + picture)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(report.as_data(found, args.seed, args.steps, worlds, results, verdicts, notes), file)
    return AS_EXPECTED if as_expected else NOT_AS_EXPECTED


def _check_writable(args):
    """Raises ``OSError`` before the work and not after it, and leaves nothing behind."""
    os.makedirs(args.out, exist_ok=True)
    folders = [args.out] + ([os.path.dirname(args.json) or "."] if args.json else [])
    for folder in folders:
        with tempfile.TemporaryFile(dir=folder):
            pass


def _refuse(why):
    sys.stderr.write("tfls_patch demo: %s\n" % why)
    return MISUSE


def _steps(text):
    return _integer(text, 1, 1000000)


def _seed(text):
    return _integer(text, 0, 2 ** 32 - 1)


def _integer(text, low, high):
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError("%r is not a whole number" % text)
    if not low <= number <= high:
        raise argparse.ArgumentTypeError("%d is not in %d to %d" % (number, low, high))
    return number


class _Clock(object):
    """Says on stderr how far the work is, with the seconds since it was made."""

    def __init__(self):
        self._start = time.time()

    def say(self, text):
        sys.stderr.write("[%3d s] %s\n" % (time.time() - self._start, text))
        sys.stderr.flush()

    def count_to(self, total):
        """Returns a function to call with a world and an arm whenever an arm is done."""
        done = []

        def on_done(world, arm):
            done.append(arm)
            self.say("%d of %d: %s: %s" % (len(done), total, world.title, arm.name))

        return on_done
