"""Each strategy of one process: what stock does, patched does too; what it refuses is refused in the same words.

The last line but one is JSON: ``{strategy: "works" or the error}``.
"""

import gc
import json
import re
import socket

import surfaces
from surfaces import KERAS_3, VERSION, tf

INF, RATE = float("inf"), surfaces.RATE
SCRIPT = [INF, 1.0, 1.0, 1.0, INF, 1.0]


def custom_loop(strategy, schedule):
    """Returns the scale and the weight after each step."""
    with strategy.scope():
        w = tf.Variable(1.0)
        optimizer = surfaces.loss_scaled(tf.keras.optimizers.SGD(RATE), 8.0, 3)
        if hasattr(type(optimizer), "build"):
            optimizer.build([w])

    def on_replica(m):
        if VERSION < (1, 15):
            optimizer.minimize(lambda: w * m, [w])
            return
        with tf.GradientTape() as tape:
            scaled = optimizer.scale_loss(w * m) if KERAS_3 else optimizer.get_scaled_loss(w * m)
        gradients = tape.gradient(scaled, [w])
        if not KERAS_3:
            gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(list(zip(gradients, [w])))

    @tf.function
    def step(m):
        (getattr(strategy, "run", None) or strategy.experimental_run_v2)(on_replica, args=(m,))

    states = []
    for m in SCRIPT:
        schedule(step, tf.constant(m))
        states.append([float(variable.numpy()) for variable in (surfaces.variables_of(optimizer)[0], w)])
    return states


def call(function, *arguments):
    function(*arguments)


def one_device():
    return tf.distribute.OneDeviceStrategy("cpu:0"), call


def central_storage():
    return tf.distribute.experimental.CentralStorageStrategy(["cpu:0"]), call


def parameter_server():
    """A cluster of servers in this process."""
    ports, sockets = [], [socket.socket() for _ in range(2)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
        ports.append("127.0.0.1:%d" % each.getsockname()[1])
    for each in sockets:
        each.close()
    cluster = tf.train.ClusterSpec({"worker": ports[:1], "ps": ports[1:]})
    _servers.extend(tf.distribute.Server(cluster, job, 0, protocol="grpc", start=True) for job in ("worker", "ps"))
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
    cls = getattr(tf.distribute, "ParameterServerStrategy", None) or tf.distribute.experimental.ParameterServerStrategy
    strategy = cls(resolver)
    home = tf.distribute if hasattr(tf.distribute, "coordinator") else tf.distribute.experimental
    coordinator = home.coordinator.ClusterCoordinator(strategy)

    def schedule(function, *arguments):
        coordinator.schedule(function, args=arguments)
        coordinator.join()

    return strategy, schedule


_servers = []


def outcome_of(made):
    """The states, or the error as text without the addresses in it."""
    try:
        return custom_loop(*made)
    except Exception as error:
        return re.sub("0x[0-9a-f]+", "0x", "%s: %s" % (type(error).__name__, error))


surfaces.start("eager")
found = {"OneDeviceStrategy": one_device, "CentralStorageStrategy": central_storage}
made = {name: make() for name, make in found.items()}
stock = {name: outcome_of(each) for name, each in sorted(made.items())}

import tfls_patch

tfls_patch.apply(min_scale=1)
patched = {name: outcome_of(each) for name, each in sorted(made.items())}
if VERSION >= (2, 4):  # before, it was for Estimator only
    tfls_patch.revert()
    del made
    gc.collect()  # what is left of the others cannot be freed afterwards
    made = parameter_server()  # last: it gives the devices other names
    stock["ParameterServerStrategy"] = outcome_of(made)
    tfls_patch.apply(min_scale=1)
    patched["ParameterServerStrategy"] = outcome_of(made)
said = {}
for name in sorted(stock):
    assert patched[name] == stock[name], (name, patched[name], stock[name])
    said[name] = patched[name] if isinstance(patched[name], str) else "works"
assert said["OneDeviceStrategy"] == "works", said
expected = [[4.0, 1.0], [4.0, 1.0 - RATE], [4.0, 1.0 - 2 * RATE], [8.0, 1.0 - 3 * RATE], [4.0, 1.0 - 3 * RATE]]
assert patched["OneDeviceStrategy"][:5] == expected, patched
print(json.dumps(said))
print("OK")
