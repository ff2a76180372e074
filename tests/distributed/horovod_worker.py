"""A worker of a Horovod job: ``horovodrun -np 2 python horovod_worker.py '{"how": "tape"}'``; one overflows.

Each worker prints one line of JSON: ``{"rank": ..., "states": [[scale, weight], ...]}``, or ``"error"`` instead of the
states. `how` is ``tape``, ``outside`` or ``inside`` (where ``DistributedOptimizer`` is, seen from the loss scale),
``accumulated`` (inside, and gradients of two batches are added up), or ``never cleared``: with the tape, and a buffer
for gradients that is cleared by subtracting it from itself, which does not remove an inf.
"""

import json
import os
import sys

ARGUMENTS = json.loads(sys.argv[1])
if ARGUMENTS["patched"]:
    import tfls_patch

    tfls_patch.apply(**ARGUMENTS.get("settings", {}))

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration", "scenarios"))
import horovod.tensorflow as hvd  # noqa: E402
import horovod.tensorflow.keras as hvd_keras  # noqa: E402
import surfaces  # noqa: E402
from surfaces import tf  # noqa: E402

surfaces.start("eager")
hvd.init()
RATE = 2.0**-10


def make_optimizer(how):
    inner = tf.keras.optimizers.SGD(RATE)
    options = dict(initial_scale=4.0, dynamic_growth_steps=3)
    wrap = tf.keras.mixed_precision.LossScaleOptimizer
    if how in ("tape", "never cleared"):
        return wrap(inner, **options)
    if how == "outside":
        return hvd_keras.DistributedOptimizer(wrap(inner, **options))
    passes = 2 if how == "accumulated" else 1
    return wrap(hvd_keras.DistributedOptimizer(inner, backward_passes_per_step=passes), **options)


def train(script, how):
    w, buffer = tf.Variable(1.0), tf.Variable(0.0)
    try:
        optimizer = make_optimizer(how)
    except TypeError as error:
        return {"error": str(error)}

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def step(m):
        if how not in ("tape", "never cleared"):
            optimizer.minimize(lambda: w * m, [w])
            return
        with tf.GradientTape() as tape:
            scaled = optimizer.get_scaled_loss(w * m)
        gradients = hvd.DistributedGradientTape(tape).gradient(scaled, [w])
        gradients = optimizer.get_unscaled_gradients(gradients)
        if how == "never cleared":
            buffer.assign_add(gradients[0])
            gradients = [buffer.read_value()]
            buffer.assign_sub(buffer)
        optimizer.apply_gradients(zip(gradients, [w]))

    optimizer._create_all_weights([w])
    states = []
    try:
        for bad in script:
            step(tf.constant(float("inf") if bad == hvd.rank() else 1.0))
            states.append([float(optimizer.loss_scale), float(w.numpy())])
    except Exception as error:
        return {"states": states, "error": "%s: %s" % (type(error).__name__, error)}
    return {"states": states}


print(json.dumps(dict(train(ARGUMENTS["script"], ARGUMENTS["how"]), rank=hvd.rank())))
sys.stdout.flush()
