"""What is trained: which worlds this TensorFlow has, the arms of each, and the process that each arm gets.

Two worlds can be shown. In the world with a floor (TensorFlow's own classes, Keras 2), a large loss makes gradients
overflow at a loss scale of 1, below which stock does not go. In the world without one (Keras 3), a burst of NaN batches
brings the scale of stock to 0, by which the next good gradients are divided.
"""

import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys

from tfls_patch.demo import data

#: Arms that train at the same time. Each is a single small network, so two fit two cores and little memory.
AT_ONCE = 2

LARGE_LOSS = 1000000
BURST_LENGTH = 150

#: Good steps until the scale doubles. Stock's 2000 would show no growth in a run as short as this. The other world has
#: 29 doublings to make good after its burst.
GROWTH_STEPS_WITH_FLOOR = 100
GROWTH_STEPS_WITHOUT_FLOOR = 25

Arm = collections.namedtuple("Arm", ["name", "float16", "patched", "burst"])
Arm.__doc__ = """One training run.

Attributes:
    name: As the table and the legend show it.
    float16: Whether layers compute in float16 under a dynamic loss scale, or in float32 without one.
    patched: Whether it calls ``tfls_patch.apply()``.
    burst: Whether it is fed the NaN batches.
"""

World = collections.namedtuple(
    "World", ["key", "title", "api", "legacy_keras", "loss_factor", "growth_steps", "bad_steps", "arms"]
)
World.__doc__ = """One experiment.

Attributes:
    key: ``floor`` or ``no_floor``.
    title: A heading that names the API and the version.
    api: ``keras`` or ``session``, as ``worker.py`` calls them.
    legacy_keras: Whether ``tf.keras`` is to be tf_keras.
    loss_factor: What the mean squared error is multiplied by.
    growth_steps: Good steps until the scale doubles.
    bad_steps: The range of steps whose batches are NaN.
    arms: A dict of name -> `Arm`, in the order of the table.
"""

Found = collections.namedtuple("Found", ["tensorflow", "keras", "has_tf_keras"])
Found.__doc__ = "The versions that an ordinary script gets here, and whether tf_keras is installed too."

FLOOR_ARMS = collections.OrderedDict(
    [
        ("float32", Arm("float32", float16=False, patched=False, burst=False)),
        ("stock", Arm("stock float16", float16=True, patched=False, burst=False)),
        ("patched", Arm("patched float16", float16=True, patched=True, burst=False)),
    ]
)

NO_FLOOR_ARMS = collections.OrderedDict(
    [
        ("float32", Arm("float32, no burst", float16=False, patched=False, burst=False)),
        ("stock", Arm("stock float16, burst", float16=True, patched=False, burst=True)),
        ("patched", Arm("patched float16, burst", float16=True, patched=True, burst=True)),
    ]
)


class WorkerError(Exception):
    """A process of the demonstration died. The text says which and ends with the last lines that it wrote."""


def probe():
    """Asks a fresh process which TensorFlow and Keras are here; returns `Found`.

    Raises:
        WorkerError: TensorFlow or its Keras cannot be imported.
    """
    return Found(**_run_worker("looking for TensorFlow", ["--probe"], _environment(patched=False, legacy_keras=False)))


def plan(found, steps):
    """Decides what can be shown with what was found.

    Args:
        found: A `Found`.
        steps: Training steps on real batches.

    Returns:
        ``(worlds, notes)``: a list of `World`, and sentences on what is not shown and why.
    """
    version = version_tuple(found.tensorflow)
    is_keras_3 = version_tuple(found.keras) >= (3, 0)
    worlds, notes = [], []
    if version >= (2, 0) and not is_keras_3:
        worlds.append(_floor_world("tf.keras of TensorFlow %s" % found.tensorflow, "keras"))
    elif found.has_tf_keras:
        worlds.append(_floor_world("tf_keras with TensorFlow %s" % found.tensorflow, "keras", legacy_keras=True))
    else:
        worlds.append(_floor_world("tf.compat.v1 of TensorFlow %s" % found.tensorflow, "session"))
        notes.append(_why_session(version))
    if is_keras_3:
        worlds.append(_no_floor_world("Keras %s with TensorFlow %s" % (found.keras, found.tensorflow), steps))
    else:
        notes.append(
            "The second experiment, a burst of NaN batches that brings the loss scale to 0, needs Keras 3 (TensorFlow "
            "2.16 or newer). Stock does not go below 1 here, so its scale cannot reach 0."
        )
    return worlds, notes


def version_tuple(text):
    """Returns major and minor version: ``"2.22.0-rc0"`` -> ``(2, 22)``."""
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])


def run(worlds, seed, steps, folder, on_done):
    """Trains every arm of every world.

    Args:
        worlds: A list of `World`.
        seed: Of the data.
        steps: Training steps on real batches.
        folder: A temporary folder for the data.
        on_done: Called with a world and an arm when the arm has ended well.

    Returns:
        A list, parallel to `worlds`, of dicts: key of the arm -> what ``worker.train`` returned.

    Raises:
        WorkerError: An arm died.
    """
    results = [{} for _ in worlds]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = {}
        for number, world in enumerate(worlds):
            path = os.path.join(folder, world.key + ".npz")
            data.save(path, seed, steps, world.loss_factor, world.growth_steps, world.bad_steps)
            for key, arm in world.arms.items():
                jobs[pool.submit(_train, world, arm, path)] = number, key
        try:
            for job in concurrent.futures.as_completed(jobs):
                number, key = jobs[job]
                results[number][key] = job.result()
                on_done(worlds[number], worlds[number].arms[key])
        except BaseException:
            for job in jobs:
                job.cancel()
            raise
    return results


def _floor_world(software, api, legacy_keras=False):
    return World(
        key="floor",
        title="A large loss (x {:,}), {}".format(LARGE_LOSS, software),
        api=api,
        legacy_keras=legacy_keras,
        loss_factor=LARGE_LOSS,
        growth_steps=GROWTH_STEPS_WITH_FLOOR,
        bad_steps=range(0),
        arms=FLOOR_ARMS,
    )


def _no_floor_world(software, steps):
    start = steps * 3 // 10
    return World(
        key="no_floor",
        title="A burst of %d NaN batches, %s" % (BURST_LENGTH, software),
        api="keras",
        legacy_keras=False,
        loss_factor=1.0,
        growth_steps=GROWTH_STEPS_WITHOUT_FLOOR,
        bad_steps=range(start, start + BURST_LENGTH),
        arms=NO_FLOOR_ARMS,
    )


def _why_session(version):
    if version < (2, 0):
        return (
            "In TensorFlow 1 the first experiment runs in a graph and a session, with MixedPrecisionLossScaleOptimizer "
            "and layers cast to float16 by hand, because its tf.keras has no complete mixed precision yet."
        )
    return (
        "tf_keras is not installed, so the first experiment runs in tf.compat.v1, which still has the floor of 1. To "
        "see it in Keras 2, install tf-keras %d.%d." % version
    )


def _train(world, arm, path):
    options = ["--api", world.api, "--data", path]
    options += ["--" + name for name in ("float16", "patched", "burst") if getattr(arm, name)]
    environment = _environment(arm.patched, world.legacy_keras)
    return _run_worker("%s: %s" % (world.title, arm.name), options, environment)


def _environment(patched, legacy_keras):
    """The user's environment, except for what would make an arm another experiment than its name says."""
    own = ("TF_USE_LEGACY_KERAS", "KERAS_BACKEND")
    environment = {
        name: value for name, value in os.environ.items() if name not in own and not name.startswith("TFLS_PATCH")
    }
    if not patched:
        environment["TFLS_PATCH"] = "0"
    if legacy_keras:
        environment["TF_USE_LEGACY_KERAS"] = "1"
    environment["KERAS_BACKEND"] = "tensorflow"
    environment["TF_CPP_MIN_LOG_LEVEL"] = "3"
    environment["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"  # or the first of two processes takes the whole device
    return environment


def _run_worker(what, options, environment):
    """Runs ``worker.py`` and returns the dict that it prints; blocks until it ends."""
    worker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker.py")
    process = subprocess.Popen(
        [sys.executable, worker] + options, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    output, errors = [text.decode("utf-8", "replace").strip().splitlines() for text in process.communicate()]
    if process.returncode != 0 or not output:
        raise WorkerError(
            "%s: the process ended with status %d.\n    %s" % (what, process.returncode, "\n    ".join(errors[-12:]))
        )
    return json.loads(output[-1])
