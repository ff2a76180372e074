"""Training that is killed and started again: usage ``killed.py manager|backup TOTAL KILL_AT FOLDER LOG``.

Trains with the patch to step TOTAL from wherever the checkpoints in FOLDER stand, and notes each step's state in LOG.
In the middle of step KILL_AT it ends by SIGKILL, as by a lack of memory; -1: never.
"""

import json
import os
import signal
import sys
import warnings

import files
import surfaces
from surfaces import KERAS_3, tf

import tfls_patch

INF, NAN = float("inf"), float("nan")
#: At every place to go on from, from step 12 on, the scale is below 1; after 20 steps the counter stands between two
#: growths.
SCRIPT = [INF] * 7 + [1.0, 2.0, 1.0, 3.0, 1.0, NAN, 1.0, 1.0, INF, 1.0, 2.0, INF, 1.0, 1.0, 1.0, 1.0, INF]
SCRIPT += [1.0, 2.0, 1.0, 1.0, 1.0, NAN, 1.0, 1.0]
STEPS_PER_EPOCH = 4  # of `fit`, which is backed up after each epoch; the loop saves as often


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def with_manager(total, kill_at, folder, log):
    """A loop of one's own, traced, with ``tf.train.CheckpointManager``."""
    surface = surfaces.surfaces("eager")[("keras 3" if KERAS_3 else "keras") + " function"](16.0, 3)
    step = tf.Variable(0, dtype=tf.int64)
    checkpoint = files.checkpoint_of(surface, step=step)
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
    if manager.latest_checkpoint:
        checkpoint.restore(manager.latest_checkpoint).assert_existing_objects_matched()
    log(int(step.numpy()), surface.state())
    for number in range(int(step.numpy()), total):
        surface.step(SCRIPT[number])
        if number == kill_at:
            kill()
        step.assign_add(1)
        log(number + 1, surface.state())
        if (number + 1) % STEPS_PER_EPOCH == 0:
            manager.save()


def with_backup(total, kill_at, folder, log):
    """``fit`` with ``BackupAndRestore``."""
    model = files.Model("", folder)
    model.new(16.0)
    place = {}

    def on_epoch_begin(epoch, logs):
        if not place:
            log(epoch * STEPS_PER_EPOCH, model.state())
        place["step"] = epoch * STEPS_PER_EPOCH

    def on_batch_end(batch, logs):
        if place["step"] == kill_at:
            kill()
        place["step"] += 1
        log(place["step"], model.state())

    def batches():
        """An epoch of `fit`, which asks for the next one after the last batch of it."""
        begin = place["step"] if place else 0
        for m in SCRIPT[begin : begin + STEPS_PER_EPOCH]:
            yield [[m]], [[0.0]]

    types = (tf.float32, tf.float32)
    data = tf.data.Dataset.from_generator(batches, types, (tf.TensorShape([1, 1]), tf.TensorShape([1, 1])))
    backup = getattr(tf.keras.callbacks, "BackupAndRestore", None) or tf.keras.callbacks.experimental.BackupAndRestore
    noting = tf.keras.callbacks.LambdaCallback(on_epoch_begin=on_epoch_begin, on_batch_end=on_batch_end)
    # The callbacks of an epoch come before its data is asked for.
    model.fit(data, epochs=total // STEPS_PER_EPOCH, callbacks=[backup(folder), noting])


def main(way, total, kill_at, folder, log):
    surfaces.start("eager")
    warnings.simplefilter("ignore")
    tfls_patch.apply(min_scale=2.0**-5)
    with open(log, "a") as file:

        def note(step, state):
            file.write(json.dumps([step, state]) + "\n")
            file.flush()

        (with_manager if way == "manager" else with_backup)(int(total), int(kill_at), folder, note)
    print("OK")


if __name__ == "__main__":
    main(*sys.argv[1:])
