"""One worker of a job: trains one weight on ``loss = w * m`` for a script of steps, and reports each step's state.

The last line of its output is JSON: ``{"states": [[scale, good, weight], ...], ...}``. The script says for each step
which worker has an infinite gradient; -1 is none of them.

    python worker.py '{"script": [0, 1, -1], "patched": [0, 1]}'
"""

import json
import os
import signal
import sys

ARGUMENTS = {
    "patched": [],  # the workers that patch themselves; others may be by the environment
    "min_scale": [2.0**-4] * 3,
    "at_floor": "skip",
    "regrow_steps": [0] * 3,
    "interval": 3,
    "fit": False,
    "checkpoints": None,  # a folder
    "killed": None,  # [worker, before which step]
}
ARGUMENTS.update(json.loads(sys.argv[1]))
INDEX = json.loads(os.environ["TF_CONFIG"])["task"]["index"]

if INDEX in ARGUMENTS["patched"]:
    import tfls_patch

    own = {name: ARGUMENTS[name][INDEX] for name in ("min_scale", "regrow_steps")}
    tfls_patch.apply(at_floor=ARGUMENTS["at_floor"], patience=3, **own)

import surfaces
from surfaces import KERAS_3, VERSION, tf

surfaces.start("eager")
RATE = 2.0**-10


def make_strategy():
    if VERSION >= (2, 4):
        return tf.distribute.MultiWorkerMirroredStrategy()
    return tf.distribute.experimental.MultiWorkerMirroredStrategy()


def number(variable):
    return float(strategy.experimental_local_results(variable)[0].numpy())


strategy = make_strategy()
with strategy.scope():
    w = tf.Variable(1.0)
    optimizer = surfaces.loss_scaled(tf.keras.optimizers.SGD(RATE), 4.0, ARGUMENTS["interval"])
    if hasattr(type(optimizer), "build"):
        optimizer.build([w])


@tf.function
def step(m):
    def on_replica():
        with tf.GradientTape() as tape:
            scaled = optimizer.scale_loss(w * m) if KERAS_3 else optimizer.get_scaled_loss(w * m)
        gradients = tape.gradient(scaled, [w])
        if not KERAS_3:
            gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(list(zip(gradients, [w])))

    (getattr(strategy, "run", None) or strategy.experimental_run_v2)(on_replica)


def run_script():
    """Steps through the script, from where the checkpoint left off; dies in the middle of it if so told."""
    folder = ARGUMENTS["checkpoints"]
    done = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(w=w, optimizer=optimizer, done=done)
    if folder:
        # Only the first worker's files count, but all must take part in saving.
        mine = folder if INDEX == 0 else folder + "-of-%d" % INDEX
        latest = tf.train.latest_checkpoint(folder)
        if latest:
            checkpoint.restore(latest)
    states, first = [], int(done.numpy())
    for position in range(first, len(ARGUMENTS["script"])):
        if [INDEX, position] == ARGUMENTS["killed"]:
            os.kill(os.getpid(), signal.SIGKILL)
        step(tf.constant(float("inf") if ARGUMENTS["script"][position] == INDEX else 1.0))
        scale, good = map(number, surfaces.variables_of(optimizer))
        states.append([scale, int(good), number(w)])
        done.assign_add(1)
        if folder and position % 3 == 2:
            checkpoint.save(os.path.join(mine, "at"))
    return {"states": states, "first": first}


def fit():
    """Trains a model with ``fit``; the samples of one worker are NaN in the batches of the script that name it."""
    import numpy as np

    if VERSION >= (2, 4):
        tf.keras.mixed_precision.set_global_policy("mixed_float16")
    else:
        tf.keras.mixed_precision.experimental.set_policy("mixed_float16")
    script, small = ARGUMENTS["script"], tf.keras.initializers.Constant(0.125)
    with strategy.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.layers.Dense(2, kernel_initializer=small, input_shape=(2,)),
                tf.keras.layers.Dense(1, kernel_initializer=small, dtype="float32"),
            ]
        )
        model.compile(tf.keras.optimizers.SGD(2.0**-6), loss="mse")
    # Each worker reads the whole and takes its share of each batch: one sample.
    workers = strategy.num_replicas_in_sync
    x = np.ones((len(script), workers, 2), "float32")
    for batch, bad in enumerate(script):
        if bad >= 0:
            x[batch, bad] = np.nan
    options = tf.data.Options()
    policy = tf.data.experimental.AutoShardPolicy.DATA
    if hasattr(options, "experimental_distribute"):
        options.experimental_distribute.auto_shard_policy = policy
    y = np.ones((len(script) * workers, 1), "float32")
    dataset = tf.data.Dataset.from_tensor_slices((x.reshape(-1, 2), y)).batch(workers, drop_remainder=True)
    model.fit(dataset.with_options(options), epochs=1, verbose=0, steps_per_epoch=len(script))
    weights = np.concatenate([weight.ravel() for weight in model.get_weights()])
    return {"weights": weights.tolist(), "scale": number(surfaces.variables_of(model.optimizer)[0])}


report = fit() if ARGUMENTS["fit"] else run_script()
report["is_patched"] = "tfls_patch" in sys.modules
print(json.dumps(report))
sys.stdout.flush()
