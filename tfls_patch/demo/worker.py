"""Train one arm of the demonstration and print what happened as one line of JSON.

Run this file by its path, never with ``-m``: importing the package ``tfls_patch`` arms the patch, and a stock arm must
be stock. It needs TensorFlow and NumPy and nothing else; the data come ready made in an ``.npz`` file.

The network is 64 inputs, one hidden layer and one output, computed in float16 over float32 variables. Only the last
step of the forward pass, the mean squared error times a large constant, is computed in float32, so the forward pass
stays finite and whatever overflows is a gradient.
"""
import argparse
import json
import os
import sys
import time

import numpy as np


def parse_arguments(argv=None):
    """Parses the options that the parent process passes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--probe", action="store_true", help="report the versions found and train nothing")
    parser.add_argument("--api", choices=("keras", "session"), help="which loss-scale classes to train with")
    parser.add_argument("--data", help=".npz file with the data, the batches and the initial weights")
    parser.add_argument("--float16", action="store_true", help="float16 with dynamic loss scaling, else float32")
    parser.add_argument("--patched", action="store_true", help="call tfls_patch.apply() before TensorFlow is imported")
    parser.add_argument("--burst", action="store_true", help="feed NaN where the data say so, else skip these steps")
    return parser.parse_args(argv)


def use_patch():
    """Imports the ``tfls_patch`` that this file belongs to and applies it, as a training script would."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    # First in the path for this one import only: were this folder site-packages, it would hide the standard library.
    sys.path.insert(0, root)
    import tfls_patch
    sys.path.remove(root)
    tfls_patch.apply()


def probe():
    """Says which TensorFlow and which Keras an ordinary script gets here."""
    import tensorflow as tf
    return {"tensorflow": tf.__version__, "keras": tf.keras.__version__}


def scaled_gradients_are_hard_to_reach():
    pass


class KerasArm:
    """The experiment with ``tf.keras``: a mixed precision policy, an optimizer and a ``tf.function`` train step."""

    def __init__(self, tf, data, float16):
        self._tf = tf
        _set_policy(tf, "mixed_float16" if float16 else "float32")
        inputs, hidden = data["hidden_kernel"].shape
        dense = tf.keras.layers.Dense
        self._model = tf.keras.Sequential([tf.keras.Input(shape=(inputs,), dtype="float32"),
                                           dense(hidden, activation="relu"), dense(1)])
        self._model.set_weights([data[name] for name in WEIGHTS])
        rate = tf.keras.optimizers.schedules.PolynomialDecay(float(data["learning_rate"]), int(data["steps"]), 0.0)
        self._optimizer = tf.keras.optimizers.Adam(rate)
        if float16:
            self._optimizer = _loss_scale_optimizer(tf, self._optimizer, int(data["growth_steps"]))
        if hasattr(self._optimizer, "build"):
            self._optimizer.build(self._model.trainable_variables)   # its variables must exist before tf.function
        self._step = tf.function(self._train_step)

    def _loss(self, x, y):
        prediction = self._tf.cast(self._model(x), self._tf.float32)
        return self._tf.reduce_mean(self._tf.square(prediction - y))

    def _train_step(self, x, y, factor):
        optimizer, variables = self._optimizer, self._model.trainable_variables
        with self._tf.GradientTape() as tape:
            loss = self._loss(x, y) * factor
            if hasattr(optimizer, "scale_loss"):          # Keras 3
                target = optimizer.scale_loss(loss)
            elif hasattr(optimizer, "get_scaled_loss"):   # Keras 2
                target = optimizer.get_scaled_loss(loss)
            else:
                target = loss
        gradients = tape.gradient(target, variables)
        if hasattr(optimizer, "get_unscaled_gradients"):
            gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(list(zip(gradients, variables)))
        return loss

    def step(self, x, y, factor):
        return float(self._step(x, y, factor))

    def validation_loss(self, x, y):
        return float(self._loss(x, y))

    def scale(self):
        scale = getattr(self._optimizer, "dynamic_scale", None)   # Keras 3
        if scale is None:
            scale = self._optimizer.loss_scale                    # Keras 2: a tensor from 2.4 on, an object before
        return float(np.array(scale() if callable(scale) else scale))

    def weights(self):
        return [np.array(w) for w in self._model.get_weights()]


class SessionArm:
    """The experiment with TensorFlow 1's graph and session, where layers are cast to float16 by hand."""

    def __init__(self, tf, data, float16):
        v1 = tf.compat.v1
        v1.disable_eager_execution()
        dtype = tf.float16 if float16 else tf.float32
        self._variables = [v1.get_variable(n, initializer=data[n], use_resource=True) for n in WEIGHTS]
        w1, b1, w2, b2 = [tf.cast(v, dtype) for v in self._variables]
        self._x = v1.placeholder(tf.float32, [None, data["hidden_kernel"].shape[0]])
        self._y = v1.placeholder(tf.float32, [None, 1])
        self._factor = v1.placeholder(tf.float32, [])
        h = tf.nn.relu(tf.matmul(tf.cast(self._x, dtype), w1) + b1)
        p = tf.cast(tf.matmul(h, w2) + b2, tf.float32)
        self._mse = tf.reduce_mean(tf.square(p - self._y))
        self._loss = self._mse * self._factor
        opt = v1.train.AdamOptimizer(float(data["learning_rate"]))
        if float16:
            legacy = v1.mixed_precision if hasattr(v1, "mixed_precision") else v1.train.experimental
            self._ls = legacy.DynamicLossScale(increment_period=int(data["growth_steps"]))
            opt = legacy.MixedPrecisionLossScaleOptimizer(opt, self._ls)
        self._train = opt.minimize(self._loss, var_list=self._variables)
        if float16:
            self._scale = self._ls()
        self._s = v1.Session()
        self._s.run(v1.global_variables_initializer())

    def step(self, x, y, factor):
        return float(self._s.run([self._loss, self._train], {self._x: x, self._y: y, self._factor: factor})[0])

    def validation_loss(self, x, y):
        return float(self._s.run(self._mse, {self._x: x, self._y: y}))

    def scale(self):
        return float(self._s.run(self._scale))

    def weights(self):
        return self._s.run(self._variables)


WEIGHTS = ("hidden_kernel", "hidden_bias", "output_kernel", "output_bias")


def _set_policy(tf, name):
    mp = tf.keras.mixed_precision
    if hasattr(mp, "set_global_policy"):
        mp.set_global_policy(name)
    else:
        mp.experimental.set_policy(name)


def _loss_scale_optimizer(tf, inner, growth):
    mp = tf.keras.mixed_precision
    if hasattr(mp, "LossScaleOptimizer"):
        return mp.LossScaleOptimizer(inner, dynamic_growth_steps=growth)
    ls = tf.compat.v1.train.experimental.DynamicLossScale(increment_period=growth)
    return mp.experimental.LossScaleOptimizer(inner, ls)


def train(arm, data, float16, burst):
    rec = {"losses": [], "scales": [], "applied": []}
    first = before = arm.weights()
    f = data["loss_factor"].astype("float32")
    t = time.time()
    for i, (rows, bad) in enumerate(zip(data["batches"], data["bad"])):
        if bad and not burst:
            continue
        x, y = data["x_train"][rows], data["y_train"][rows]
        if bad:
            x = x * np.float32("nan")
        rec["scales"].append(arm.scale() if float16 else None)
        rec["losses"].append(arm.step(x, y, f) / float(f))
        after = arm.weights()
        rec["applied"].append(any(a.tobytes() != b.tobytes() for a, b in zip(before, after)))
        before = after
    rec["seconds"] = time.time() - t
    rec["final_scale"] = arm.scale() if float16 else None
    rec["val"] = arm.validation_loss(data["x_val"], data["y_val"])
    rec["finite"] = all(np.isfinite(w).all() for w in before)
    rec["changed"] = any(a.tobytes() != b.tobytes() for a, b in zip(first, before))
    return rec


def main(argv=None):
    args = parse_arguments(argv)
    if args.patched:
        use_patch()
    import tensorflow as tf
    data = dict(np.load(args.data))
    arm = (KerasArm if args.api == "keras" else SessionArm)(tf, data, args.float16)
    print(json.dumps(train(arm, data, args.float16, args.burst)))


if __name__ == "__main__":
    main()
