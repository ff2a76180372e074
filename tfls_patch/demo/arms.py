"""What is trained: the experiments, which worlds this TensorFlow has, their arms, and the process that each arm gets.

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
import tempfile

from tfls_patch.demo import data

#: Arms that train at the same time. Each is a single small network, so two fit two cores and little memory.
AT_ONCE = 2

BURST_LENGTH = 150

Experiment = collections.namedtuple(
    "Experiment",
    ["network", "steps", "loss_factor", "growth_with_floor", "growth_without_floor", "remedies", "wording"],
)
Experiment.__doc__ = """What is trained in every world.

Attributes:
    network: A key of ``data.TASKS`` and ``networks.NETWORKS``.
    steps: Training steps on real batches, if no other number is asked for.
    loss_factor: What the error is multiplied by where there is a floor, to give the loss.
    growth_with_floor: Good steps until the scale doubles. Stock's 2000 would show no growth in a run as short as this.
    growth_without_floor: The same in the other world, which has 29 doublings to make good after its burst.
    remedies: Whether what people do today without the patch gets arms too.
    wording: A `Wording`.
"""

Wording = collections.namedtuple("Wording", ["with_floor", "error", "closing"])
Wording.__doc__ = """How an experiment is spoken of.

Attributes:
    with_floor: The title of the world with a floor.
    error: What is on the axis.
    closing: A sentence below the tables.
"""

EXPERIMENTS = collections.OrderedDict(
    [
        (
            "digits",
            Experiment(
                network="digits",
                steps=2000,
                loss_factor=1000000.0,
                growth_with_floor=100,
                growth_without_floor=25,
                remedies=False,
                wording=Wording(
                    with_floor="A large loss (x 1,000,000)",
                    error="mean squared error",
                    closing="Losses are mean squared errors of the digit's value.",
                ),
            ),
        ),
        (
            "hourglass",
            Experiment(
                network="hourglass",
                steps=1000,
                # Images are 32 x 16, and the error is a mean over the batch. So a pixel weighs what it would in a sum
                # over 16 images of 1024 x 512.
                loss_factor=16 * 1024.0 * 512 / (32 * 16),
                growth_with_floor=50,
                growth_without_floor=25,
                remedies=True,
                wording=Wording(
                    with_floor="An hourglass network, focal loss",
                    error="focal loss of an image",
                    closing="Losses are focal losses, summed over the pixels of an image.",
                ),
            ),
        ),
    ]
)

Arm = collections.namedtuple("Arm", ["name", "float16", "patched", "burst", "remedy"])
Arm.__doc__ = """One training run.

Attributes:
    name: As the table and the legend show it.
    float16: Whether layers compute in float16 under a dynamic loss scale, or in float32 without one.
    patched: Whether it calls ``tfls_patch.apply()``.
    burst: Whether it is fed the NaN batches.
    remedy: What is done instead of the patch, as ``worker.py`` calls it, or None.
"""

World = collections.namedtuple(
    "World",
    ["key", "title", "experiment", "api", "legacy_keras", "loss_factor", "growth_steps", "bad_steps", "arms"],
)
World.__doc__ = """An experiment under one kind of loss scale.

Attributes:
    key: ``floor`` or ``no_floor``.
    title: A heading that names the API and the version.
    experiment: The `Experiment`.
    api: ``keras`` or ``session``, as ``worker.py`` calls them.
    legacy_keras: Whether ``tf.keras`` is to be tf_keras.
    loss_factor: What the error is multiplied by.
    growth_steps: Good steps until the scale doubles.
    bad_steps: The range of steps whose batches are NaN.
    arms: A dict of name -> `Arm`, in the order of the table.
"""

Found = collections.namedtuple("Found", ["tensorflow", "keras", "has_tf_keras"])
Found.__doc__ = "The versions that an ordinary script gets here, and whether tf_keras is installed too."


def _arm(name, float16=True, patched=False, burst=False, remedy=None):
    return Arm(name, float16, patched, burst, remedy)


FLOOR_ARMS = collections.OrderedDict(
    [
        ("float32", _arm("float32", float16=False)),
        ("stock", _arm("stock float16")),
        ("patched", _arm("patched float16", patched=True)),
    ]
)

REMEDIES = collections.OrderedDict(
    [
        ("by_hand", _arm("floor removed by hand", remedy="by_hand")),
        ("subclass", _arm("subclass, scale / 1024", remedy="subclass")),
    ]
)

NO_FLOOR_ARMS = collections.OrderedDict(
    [
        ("float32", _arm("float32, no burst", float16=False)),
        ("stock", _arm("stock float16, burst", burst=True)),
        ("patched", _arm("patched float16, burst", patched=True, burst=True)),
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


def plan(experiment, found, steps):
    """Decides what can be shown with what was found.

    Args:
        experiment: An `Experiment`.
        found: A `Found`.
        steps: Training steps on real batches.

    Returns:
        ``(worlds, notes)``: a list of `World`, and sentences on what is not shown and why.
    """
    version = version_tuple(found.tensorflow)
    is_keras_3 = version_tuple(found.keras) >= (3, 0)
    worlds, notes = [], []
    if version >= (2, 0) and not is_keras_3:
        worlds.append(_floor_world(experiment, "tf.keras of TensorFlow %s" % found.tensorflow, "keras"))
    elif found.has_tf_keras:
        software = "tf_keras with TensorFlow %s" % found.tensorflow
        worlds.append(_floor_world(experiment, software, "keras", legacy_keras=True))
    else:
        worlds.append(_floor_world(experiment, "tf.compat.v1 of TensorFlow %s" % found.tensorflow, "session"))
        notes.append(_why_session(version))
    if is_keras_3:
        software = "Keras %s with TensorFlow %s" % (found.keras, found.tensorflow)
        worlds.append(_no_floor_world(experiment, software, steps))
    else:
        notes.append(
            "The second experiment, a burst of NaN batches that brings the loss scale to 0, needs Keras 3 (TensorFlow "
            "2.16 or newer). Stock does not go below 1 here, so its scale cannot reach 0."
        )
    return worlds, notes


def version_tuple(text):
    """Returns major and minor version: ``"2.22.0-rc0"`` -> ``(2, 22)``."""
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])


def run(worlds, seeds, steps, folder, progress):
    """Trains every arm of every world.

    Args:
        worlds: A list of `World`.
        seeds: Of the data; each arm is trained once with each.
        steps: Training steps on real batches.
        folder: A temporary folder for the data.
        progress: Its ``move(world, arm, share)`` is called whenever an arm has come further, in any thread.

    Returns:
        A list, parallel to `worlds`, of dicts: key of the arm -> a list of what ``worker.train`` returned, one a seed.

    Raises:
        WorkerError: An arm died.
    """
    results = [{} for _ in worlds]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = {}
        for number, world in enumerate(worlds):
            paths = [_data(world, seed, steps, folder) for seed in seeds]
            for key, arm in world.arms.items():
                jobs[pool.submit(_train, world, arm, paths, progress)] = number, key
        try:
            for job in concurrent.futures.as_completed(jobs):
                number, key = jobs[job]
                results[number][key] = job.result()
        except BaseException:
            for job in jobs:
                job.cancel()
            raise
    return results


def _data(world, seed, steps, folder):
    path = os.path.join(folder, "%s_%d.npz" % (world.key, seed))
    data.save(path, world.experiment.network, seed, steps, world.loss_factor, world.growth_steps, world.bad_steps)
    return path


def _floor_world(experiment, software, api, legacy_keras=False):
    world_arms = collections.OrderedDict(FLOOR_ARMS)
    if experiment.remedies:
        world_arms.update(REMEDIES)
        if api == "session":  # there the methods to override are private
            del world_arms["subclass"]
    return World(
        key="floor",
        title="%s, %s" % (experiment.wording.with_floor, software),
        experiment=experiment,
        api=api,
        legacy_keras=legacy_keras,
        loss_factor=experiment.loss_factor,
        growth_steps=experiment.growth_with_floor,
        bad_steps=range(0),
        arms=world_arms,
    )


def _no_floor_world(experiment, software, steps):
    start = steps * 3 // 10
    return World(
        key="no_floor",
        title="A burst of %d NaN batches, %s" % (BURST_LENGTH, software),
        experiment=experiment,
        api="keras",
        legacy_keras=False,
        loss_factor=1.0,
        growth_steps=experiment.growth_without_floor,
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


def _train(world, arm, paths, progress):
    options = ["--api", world.api, "--network", world.experiment.network]
    options += ["--" + name for name in ("float16", "patched", "burst") if getattr(arm, name)]
    options += ["--remedy", arm.remedy] if arm.remedy else []
    options += ["--data"] + paths
    environment = _environment(arm.patched, world.legacy_keras)
    what = "%s: %s" % (world.title, arm.name)
    return _run_worker(what, options, environment, lambda share: progress.move(world, arm, share))


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


def _run_worker(what, options, environment, on_share=lambda share: None):
    """Runs ``worker.py`` and returns what it prints last; blocks until it ends.

    Before that it prints how much of its work is done, which `on_share` is called with.
    """
    worker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker.py")
    output = ""
    with tempfile.TemporaryFile() as errors:  # not a pipe, which would be full before it is read
        process = subprocess.Popen(
            [sys.executable, worker] + options, env=environment, stdout=subprocess.PIPE, stderr=errors
        )
        for line in process.stdout:
            output = line.decode("utf-8", "replace")
            if re.match(r"0\.\d+$", output.strip()):
                on_share(float(output))
        process.stdout.close()
        if process.wait() != 0 or not output:
            errors.seek(0)
            last = errors.read().decode("utf-8", "replace").strip().splitlines()[-12:]
            raise WorkerError(
                "%s: the process ended with status %d.\n    %s" % (what, process.returncode, "\n    ".join(last))
            )
    on_share(1.0)
    return json.loads(output)
