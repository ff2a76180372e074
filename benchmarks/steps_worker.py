"""Times train steps and updates of the loss scale in one process, stock against patched; prints one line of JSON.

``steps.py`` runs it with each TensorFlow, so it keeps to the syntax of Python 3.6. Every contestant has a model, an
optimizer and a traced function of its own, which are made and traced under its own rule. In each round all of them run
a block of steps, in a new order. The second stock contestant differs from the first in nothing: how far it is from a
ratio of 1 is what a difference has to exceed to mean something.
"""

import argparse
import json
import os
import random
import sys
import time
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import common  # noqa: E402

CONTESTANTS = ["stock", "stock again", "patched"]

#: Name -> inputs, units of the layers, batch size. The small one is all overhead, so it shows the most of ours; the
#: other is no larger because TensorFlow 2.2 takes a tenth of a second for its step in float16.
MODELS = {"small": (16, [16, 1], 8), "medium": (128, [256, 256, 1], 32)}

BLOCK_SECONDS = 0.05
UPDATES_IN_A_CALL = 200


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--sets", type=int, required=True, help="how often everything is made anew")
    options = parser.parse_args()
    tf.get_logger().setLevel("ERROR")
    random.seed(common.SEED)
    measured = {"tensorflow": tf.__version__, "keras": _keras_version(), "python": sys.version.split()[0]}
    measured.update(numpy=np.__version__, device=common.device(tf), results=[])
    measured.update(models=MODELS, block=BLOCK_SECONDS, updates=UPDATES_IN_A_CALL)
    for name, make in sorted(_benchmarks().items()):
        times = {contestant: [] for contestant in CONTESTANTS}
        for _ in range(options.sets):
            for contestant, values in _measure(make, options.rounds).items():
                times[contestant] += values
        measured["results"].append({"name": name, "times": times})
    print(json.dumps(measured))


def _keras_version():
    package = tf.keras.Model.__module__.split(".")[0]
    return "%s %s" % (package, getattr(sys.modules[package], "__version__", tf.__version__))


def _benchmarks():
    """Returns a dict of (kind, model, mode) as text -> a function that makes a contestant: a step to call."""
    found = {}
    version = tuple(int(part) for part in tf.__version__.split(".")[:2])
    modes = ["eager", "tf.function"] + (["XLA"] if version >= (2, 5) else [])
    for model in MODELS:
        for mode in modes:
            found["step|%s|%s" % (model, mode)] = lambda model=model, mode=mode: _train_step(model, mode)
    for outcome, gradient in [("finite", 1.0), ("overflow", float("inf"))]:
        found["update|DynamicLossScale|" + outcome] = lambda g=gradient: _updates(_dynamic_loss_scale(), g)
        if hasattr(getattr(_optimizer(), "_loss_scale", None), "update") and version >= (2, 4):
            found["update|LossScaleOptimizer|" + outcome] = lambda g=gradient: _updates(_optimizer()._loss_scale, g)
    return found


def _measure(make, rounds):
    """Returns a dict of contestant -> seconds a step, one value a round."""
    steps = {}
    for contestant in CONTESTANTS:
        _switch(contestant)
        steps[contestant] = make()
        for _ in range(5):
            steps[contestant]()
    count = _steps_in_a_block(steps["stock"])
    times = {contestant: [] for contestant in CONTESTANTS}
    for _ in range(rounds):
        for contestant in random.sample(CONTESTANTS, len(CONTESTANTS)):
            _switch(contestant)  # for what is not traced
            steps[contestant]()
            times[contestant].append(_time(steps[contestant], count))
    _switch("stock")
    return times


def _steps_in_a_block(step):
    _switch("stock")
    once = min(_time(step, 3) for _ in range(3))
    return max(1, int(BLOCK_SECONDS / once))


def _time(step, count):
    begin = time.perf_counter()
    for _ in range(count):
        result = step()
    float(result)  # a GPU may have only begun
    return (time.perf_counter() - begin) / count


def _switch(contestant):
    import tfls_patch

    if contestant != "patched":
        tfls_patch.revert()
        return
    with warnings.catch_warnings():  # of traces with other bounds, which are meant to be there
        warnings.simplefilter("ignore")
        tfls_patch.apply()


# --- train steps ---------------------------------------------------------------------------------------------------


def _optimizer():
    mixed_precision = tf.keras.mixed_precision
    # At this rate, and this scale, gradients stay finite. A Keras 2 optimizer would otherwise fall by fits and starts.
    inner = tf.keras.optimizers.SGD(1e-6)
    if hasattr(mixed_precision, "LossScaleOptimizer"):
        return mixed_precision.LossScaleOptimizer(inner, initial_scale=8.0, dynamic_growth_steps=10 ** 9)
    loss_scale = tf.compat.v1.train.experimental.DynamicLossScale(8.0, 10 ** 9)
    return mixed_precision.experimental.LossScaleOptimizer(inner, loss_scale)


def _dynamic_loss_scale():
    v1 = tf.compat.v1
    new = getattr(getattr(v1, "mixed_precision", None), "DynamicLossScale", None)  # from TensorFlow 2.4 on
    return (new or v1.train.experimental.DynamicLossScale)(8.0, 10 ** 9)


def _train_step(model_name, mode):
    inputs, units, batch = MODELS[model_name]
    mixed_precision = tf.keras.mixed_precision
    set_policy = getattr(mixed_precision, "set_global_policy", None) or mixed_precision.experimental.set_policy
    set_policy("mixed_float16")
    layers = [tf.keras.Input(shape=(inputs,), dtype="float32")]
    layers += [tf.keras.layers.Dense(each, activation="relu" if each > 1 else None) for each in units]
    model = tf.keras.Sequential(layers)
    set_policy("float32")
    optimizer = _optimizer()
    if hasattr(optimizer, "build"):
        optimizer.build(model.trainable_variables)
    is_keras_3 = hasattr(optimizer, "scale_loss")
    generator = np.random.RandomState(common.SEED)
    x = tf.constant(generator.normal(size=(batch, inputs)).astype("float32"))
    y = tf.constant(generator.normal(size=(batch, 1)).astype("float32"))

    def step():
        variables = model.trainable_variables
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.cast(model(x), tf.float32) - y))
            scaled = optimizer.scale_loss(loss) if is_keras_3 else optimizer.get_scaled_loss(loss)
        gradients = tape.gradient(scaled, variables)
        if not is_keras_3:
            gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(list(zip(gradients, variables)))
        return loss

    if mode == "eager":
        return step
    return tf.function(step, jit_compile=True) if mode == "XLA" else tf.function(step)


# --- the bare rule -------------------------------------------------------------------------------------------------


def _updates(loss_scale, value):
    """Returns a function that updates a loss scale many times in one call of a graph."""
    gradient = tf.constant([value])

    @tf.function
    def update():
        for _ in tf.range(UPDATES_IN_A_CALL):
            loss_scale.update([gradient])
        return loss_scale()

    return update


if __name__ == "__main__":
    main()
