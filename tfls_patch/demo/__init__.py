"""The demonstrations: ``python -m tfls_patch demo`` and ``python -m tfls_patch demo hourglass``.

A float16 network is trained side by side in float32, in stock float16 and in patched float16, each in a process of its
own. In the first one, ``digits``, a dense network learns the value of handwritten digits. In ``hourglass`` one of 3x3
convolutions finds areas of interest in images, and what people do today without the patch is trained beside it. What
can be shown depends on the TensorFlow that is installed:

- A large loss, where stock has a floor of 1 (TensorFlow 1.14 to 2.15, tf_keras, tf.compat.v1): every gradient overflows
  at a scale of 1, so stock float16 never takes a step.
- A burst of NaN batches, where stock has no floor at all (Keras 3): the scale reaches 0, and the next good batch is
  divided by it.

The forward pass of the large loss is finite throughout. Were it not, no loss scale could help: such layers belong in
float32.

It prints a table and a verdict per experiment and draws a picture, ``tfls_patch_demo.png`` or
``tfls_patch_hourglass.png``. It needs TensorFlow and matplotlib, and scikit-learn for its bundled digits; nothing is
downloaded.
"""

import argparse
import importlib
import json
import os
import sys
import tempfile
import threading
import time

#: What each demonstration draws, the first being the default, and which packages it needs besides TensorFlow.
PICTURES = {"digits": "tfls_patch_demo.png", "hourglass": "tfls_patch_hourglass.png"}
PACKAGES = {"digits": ("sklearn.datasets", "matplotlib"), "hourglass": ("matplotlib",)}

#: Exit statuses.
AS_EXPECTED, NOT_AS_EXPECTED, MISUSE = 0, 1, 2


def main(argv=None):
    """Runs the demonstration with these command line arguments and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tfls_patch demo", description=__doc__.splitlines()[0])
    add_arguments(parser)
    return run(parser.parse_args(argv))


def add_arguments(parser):
    """Adds the options of the demonstration to an ``argparse`` parser."""
    parser.add_argument(
        "experiment", nargs="?", choices=sorted(PICTURES), default="digits", help="what to train (default: digits)"
    )
    parser.add_argument("--out", default=".", metavar="DIR", help="folder for the picture (default: this one)")
    parser.add_argument("--json", metavar="FILE", help="write everything that was measured to FILE")
    parser.add_argument(
        "--steps", type=_steps, metavar="N", help="training steps (default: 2000 for digits, 1000 for hourglass)"
    )
    parser.add_argument(
        "--seed", type=_seed, default=0, metavar="S", help="of batches and initial weights (default: %(default)s)"
    )
    parser.add_argument(
        "--seeds", type=_seeds, default=1, metavar="K", help="train with K seeds, from S on (default: %(default)s)"
    )


def run(args):
    """Runs the demonstration.

    Args:
        args: What a parser with `add_arguments` returns.

    Returns:
        The exit status: 0 if everything was seen that is to be expected, 1 if not, 2 if it could not be run at all.
    """
    for package in PACKAGES[args.experiment]:
        try:
            importlib.import_module(package)
        except ImportError as error:
            return _refuse('%s is needed: pip install "tfls-patch[demo]" (%s)' % (package.split(".")[0], error))
    try:
        _check_writable(args)
        return _demonstrate(args)
    except OSError as error:
        return _refuse(str(error))


def _demonstrate(args):
    from tfls_patch.demo import arms, figure, report

    experiment = arms.EXPERIMENTS[args.experiment]
    steps, seeds = args.steps or experiment.steps, range(args.seed, args.seed + args.seeds)
    progress = _Progress()
    try:
        found = arms.probe()
    except arms.WorkerError as error:
        return _refuse("TensorFlow and Keras are needed, and cannot be imported here.\n%s" % error)
    if arms.version_tuple(found.tensorflow) < (1, 14):
        return _refuse("TensorFlow %s is too old: dynamic loss scales came with 1.14" % found.tensorflow)

    worlds, notes = arms.plan(experiment, found, steps)
    total = sum(len(world.arms) for world in worlds)
    progress.start("TensorFlow %s: training %d arms, %d at a time" % (found.tensorflow, total, arms.AT_ONCE), total)
    try:
        with tempfile.TemporaryDirectory(prefix="tfls_patch_demo_") as folder:
            results = arms.run(worlds, seeds, steps, folder, progress)
    except arms.WorkerError as error:
        sys.stderr.write("\ntfls_patch demo: %s\n" % error)
        return NOT_AS_EXPECTED

    verdicts = [report.judge(world, result) for world, result in zip(worlds, results)]
    as_expected = not any(verdict.failures for verdict in verdicts)
    if steps < experiment.steps and not as_expected:
        few = "In fewer than %d steps, those that find the scale weigh more than is expected."
        notes.append(few % experiment.steps)
    for world, result, verdict in zip(worlds, results, verdicts):
        print("\n" + report.text(world, result, verdict))
    for note in notes:
        print("\nNote: " + note)
    picture = os.path.join(args.out, PICTURES[args.experiment])
    figure.save(picture, worlds, results)
    print("\n%s Picture: %s" % (experiment.wording.closing, picture))
    if args.json:
        with open(args.json, "w") as file:
            json.dump(report.as_data(found, seeds, steps, worlds, results, verdicts, notes), file)
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


def _seeds(text):
    return _integer(text, 1, 100)


def _integer(text, low, high):
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError("%r is not a whole number" % text)
    if not low <= number <= high:
        raise argparse.ArgumentTypeError("%d is not in %d to %d" % (number, low, high))
    return number


class _Progress(object):
    """Says on stderr how far the work is: a bar on a terminal, elsewhere a line whenever an arm is done."""

    BAR = 30

    def __init__(self):
        self._start, self._lock, self._is_terminal = time.time(), threading.Lock(), sys.stderr.isatty()
        self._total, self._shares = 1, {}

    def start(self, text, total):
        """Opens the work on so many arms."""
        self._total = total
        self._write("[%3d s] %s\n" % (time.time() - self._start, text))

    def move(self, world, arm, share):
        """Notes that a share of the work on an arm is done; called from several threads."""
        with self._lock:
            self._shares[world.key, arm.name] = share
            done = [each for each in self._shares.values() if each == 1.0]
            seconds = time.time() - self._start
            if share == 1.0:
                clear = "\r\033[K" if self._is_terminal else ""
                said = (clear, seconds, len(done), self._total, world.title, arm.name)
                self._write("%s[%3d s] %d of %d: %s: %s\n" % said)
            if self._is_terminal and len(done) < self._total:
                self._write(self._bar(sum(self._shares.values()) / self._total, seconds))

    def _bar(self, share, seconds):
        filled = int(self.BAR * share)
        return "\r[%3d s] [%s%s] %3d %%" % (seconds, "#" * filled, "." * (self.BAR - filled), 100 * share)

    @staticmethod
    def _write(text):
        sys.stderr.write(text)
        sys.stderr.flush()
