"""Two replicas, one of which overflows: both skip, the scale halves once, and the next good step is applied."""

import surfaces
from surfaces import KERAS_3, VERSION, tf

import tfls_patch

surfaces.start("eager")
tfls_patch.apply(min_scale=2.0**-4)

configuration = tf.config.experimental
cpu = configuration.list_physical_devices("CPU")[0]
configuration.set_virtual_device_configuration(cpu, [configuration.VirtualDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
run = getattr(strategy, "run", None) or strategy.experimental_run_v2

with strategy.scope():
    w = tf.Variable(1.0)
    inner = tf.keras.optimizers.SGD(0.25)
    if VERSION < (2, 4):
        scale = surfaces.loss_scales().DynamicLossScale(initial_loss_scale=4.0)
        optimizer = tf.keras.mixed_precision.experimental.LossScaleOptimizer(inner, scale)
    else:
        optimizer = tf.keras.mixed_precision.LossScaleOptimizer(inner, initial_scale=4.0)
    if hasattr(type(optimizer), "build"):
        optimizer.build([w])


@tf.function
def step(bad_replica):
    def on_replica():
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        m = tf.where(tf.equal(replica, bad_replica), float("inf"), 1.0)
        with tf.GradientTape() as tape:
            scaled = optimizer.scale_loss(w * m) if KERAS_3 else optimizer.get_scaled_loss(w * m)
        gradients = tape.gradient(scaled, [w])
        if not KERAS_3:
            gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(list(zip(gradients, [w])))

    run(on_replica)


def everywhere(variable):
    return [float(each.numpy()) for each in strategy.experimental_local_results(variable)]


def scales():
    if KERAS_3:
        return everywhere(optimizer.dynamic_scale.value)
    state = optimizer._loss_scale
    return everywhere(state.current_loss_scale if hasattr(state, "counter") else state._current_loss_scale)


for replica in (0, 1, 1):
    step(tf.constant(replica))
assert scales() == [0.5, 0.5] and everywhere(w) == [1.0, 1.0], (scales(), everywhere(w))
for _ in range(10):
    step(tf.constant(1))
assert scales() == [2.0**-4] * 2 and everywhere(w) == [1.0, 1.0], (scales(), everywhere(w))
step(tf.constant(-1))
assert everywhere(w) == [0.5, 0.5], everywhere(w)
print("OK")
