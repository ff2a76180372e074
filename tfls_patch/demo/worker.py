"""Trains one arm of a demonstration and prints what happened as one line of JSON.

Run this file by its path, never with ``-m``: importing the package ``tfls_patch`` arms the patch, and a stock arm has
to be stock. It needs TensorFlow and NumPy and nothing else; data, batches and initial weights come in ``.npz`` files,
one for each run.

Variables are float32, the layers of the network compute in float16 (or float32), and the loss, an error times a
constant, is float32 again. So the forward pass is finite whatever the constant, and what overflows are gradients: a
loss scale can cure those, but not a NaN in the forward pass.
"""

import argparse
import importlib
import importlib.util
import json
import os
import sys

import numpy as np

import networks  # beside this file

#: How many examples are validated at a time: float16 activations of all of them would be large.
VALIDATED_AT_ONCE = 400

#: How often a run says how far it is.
REPORTS = 50


class KerasArm(object):
    """The experiment in ``tf.keras``, 2 or 3: a mixed precision policy and a train step in a ``tf.function``."""

    def __init__(self, tf, network, data, float16, remedy):
        self._tf, self._network = tf, network
        self._factor = float(data["loss_factor"])
        _set_policy(tf, "mixed_float16" if float16 else "float32")
        self._model = _keras_model(tf, network, data)
        decay = tf.keras.optimizers.schedules.PolynomialDecay
        # RMSprop, because its step does not depend on the number of steps before: that counts skipped ones in some
        # versions and not in others. Adam would begin differently after the steps that find the scale.
        rate = decay(float(data["learning_rate"]), int(data["decay_steps"]), 0.0)
        self._optimizer = tf.keras.optimizers.RMSprop(rate)
        if float16:
            self._optimizer = self._make_loss_scale(self._optimizer, int(data["growth_steps"]), remedy == "subclass")
        if remedy == "by_hand":
            _remove_floor(tf, self._optimizer._loss_scale)
        if hasattr(self._optimizer, "build"):
            # The variables of newer optimizers have to exist before a tf.function is traced.
            self._optimizer.build(self._model.trainable_variables)
        self._scaled, self._unscaled = _scaling_methods(self._optimizer)
        self._step = tf.function(self._train_step)

    def step(self, x, y):
        """Trains on one batch and returns its error."""
        return float(self._step(x, y)) / self._factor

    def error(self, x, y):
        """Returns the error, and trains nothing."""
        return float(self._error(x, y))

    def scale(self):
        """Returns the loss scale."""
        scale = getattr(self._optimizer, "dynamic_scale", None)  # Keras 3
        if scale is None:
            scale = self._optimizer.loss_scale  # Keras 2: a tensor from TensorFlow 2.4 on, an object before
        return float(np.array(scale() if callable(scale) else scale)) / getattr(self._optimizer, "divisor", 1.0)

    def weights(self):
        """Returns the weights as arrays."""
        return [np.array(weight) for weight in self._model.get_weights()]

    def _make_loss_scale(self, optimizer, growth_steps, lower):
        return _with_loss_scale(self._tf, optimizer, growth_steps, lower)

    def _train_step(self, x, y):
        variables = self._model.trainable_variables
        with self._tf.GradientTape() as tape:
            loss = self._error(x, y) * self._factor
            scaled_loss = self._scaled(loss)
        gradients = self._unscaled(tape.gradient(scaled_loss, variables))
        self._optimizer.apply_gradients(list(zip(gradients, variables)))
        return loss

    def _error(self, x, y):
        return self._network.error(self._tf, self._model(x), y)


class SessionArm(object):
    """The same in TensorFlow 1's way: a graph, a session, and layers that are cast to float16 by hand.

    Its methods are those of `KerasArm`.
    """

    def __init__(self, tf, network, data, float16, remedy):
        v1 = tf.compat.v1
        v1.disable_eager_execution()
        with tf.Graph().as_default():
            self._build(tf, network, data, float16, remedy)

    def _build(self, tf, network, data, float16, remedy):
        v1 = tf.compat.v1
        self._factor = float(data["loss_factor"])
        self._x = v1.placeholder(tf.float32, (None,) + data["x_train"].shape[1:])
        self._y = v1.placeholder(tf.float32, (None,) + data["y_train"].shape[1:])
        self._variables = [
            v1.get_variable(name, initializer=data[name], use_resource=True) for name in _weight_names(data)
        ]
        dtype = tf.float16 if float16 else tf.float32
        weights = [tf.cast(variable, dtype) for variable in self._variables]
        self._error = network.error(tf, network.output(tf, tf.cast(self._x, dtype), weights), self._y)
        self._loss = self._error * self._factor

        done = v1.train.get_or_create_global_step()
        rate = v1.train.polynomial_decay(float(data["learning_rate"]), done, int(data["decay_steps"]), 0.0)
        optimizer = v1.train.RMSPropOptimizer(rate)
        self._scale = None
        if float16:
            experimental = getattr(v1, "mixed_precision", None) or v1.train.experimental
            loss_scale = experimental.DynamicLossScale(increment_period=int(data["growth_steps"]))
            if remedy == "by_hand":
                _remove_floor(tf, loss_scale)
            optimizer = experimental.MixedPrecisionLossScaleOptimizer(optimizer, loss_scale)
            self._scale = loss_scale()
        self._train = optimizer.minimize(self._loss, global_step=done, var_list=self._variables)
        self._session = v1.Session()
        self._session.run(v1.global_variables_initializer())

    def step(self, x, y):
        loss, _ = self._session.run([self._loss, self._train], {self._x: x, self._y: y})
        return float(loss) / self._factor

    def error(self, x, y):
        return float(self._session.run(self._error, {self._x: x, self._y: y}))

    def scale(self):
        return float(self._session.run(self._scale))

    def weights(self):
        return self._session.run(self._variables)


ARMS = {"keras": KerasArm, "session": SessionArm}


def train(arm, data, float16, burst, on_step):
    """Trains on every batch of `data` and returns what happened, ready for ``json.dumps``.

    Args:
        arm: A `KerasArm` or `SessionArm`.
        data: A dict of arrays, see ``tfls_patch.demo.data``.
        float16: Whether there is a loss scale to record.
        burst: Whether the batches that are marked bad are fed, as NaN, or left out.
        on_step: Called after each batch with the share of the batches that is done.

    Returns:
        A dict: per step ``loss``, ``scale`` (the one that the step used) and ``applied`` (a bit of a weight changed);
        and ``final_scale``, ``validation_loss``, ``weights_changed``, ``weights_finite``.
    """
    steps = {"loss": [], "scale": [], "applied": []}
    first = weights = arm.weights()
    for number, (rows, is_bad) in enumerate(zip(data["batches"], data["bad"]), 1):
        if is_bad and not burst:
            continue
        x = np.full_like(data["x_train"][rows], np.nan) if is_bad else data["x_train"][rows]
        steps["scale"].append(arm.scale() if float16 else None)
        steps["loss"].append(arm.step(x, data["y_train"][rows]))
        before, weights = weights, arm.weights()
        steps["applied"].append(_differ(before, weights))
        on_step(number / float(len(data["bad"])))
    return dict(
        steps,
        final_scale=arm.scale() if float16 else None,
        validation_loss=_validation_loss(arm, data["x_validation"], data["y_validation"]),
        weights_changed=_differ(first, weights),
        weights_finite=all(bool(np.isfinite(weight).all()) for weight in weights),
    )


def _validation_loss(arm, x, y):
    parts = range(0, len(x), VALIDATED_AT_ONCE)
    errors = [arm.error(x[start : start + VALIDATED_AT_ONCE], y[start : start + VALIDATED_AT_ONCE]) for start in parts]
    return float(np.average(errors, weights=[len(x[start : start + VALIDATED_AT_ONCE]) for start in parts]))


def main(arguments=None):
    """Runs the probe or one arm, and prints its result."""
    options = _options(arguments)
    if options.probe:
        print(json.dumps(_probe()))
        return
    if options.patched:
        _patch()
    import tensorflow as tf

    network = networks.NETWORKS[options.network]()
    progress, runs = _Progress(len(options.data)), []
    for path in options.data:
        with np.load(path) as archive:
            data = dict(archive)
        arm = ARMS[options.api](tf, network, data, options.float16, options.remedy)
        _check_patch(options.patched)
        runs.append(train(arm, data, options.float16, options.burst, progress.say))
        progress.next_run()
    print(json.dumps(runs))


class _Progress(object):
    """Prints how much of the work is done, as a number from 0 to 1 on a line of its own."""

    def __init__(self, runs):
        self._runs, self._done, self._said = runs, 0, 0.0

    def say(self, share):
        share = (self._done + share) / self._runs
        if share - self._said >= 1.0 / REPORTS:
            self._said = share
            print("%.4f" % share)
            sys.stdout.flush()

    def next_run(self):
        self._done += 1


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--probe", action="store_true", help="print which versions are here, and train nothing")
    parser.add_argument("--api", choices=sorted(ARMS), help="the API to train with")
    parser.add_argument("--network", choices=sorted(networks.NETWORKS), help="the network to train")
    parser.add_argument("--data", nargs="+", help="the .npz files")
    parser.add_argument("--float16", action="store_true", help="float16 with a dynamic loss scale, instead of float32")
    parser.add_argument("--patched", action="store_true", help="call tfls_patch.apply() before TensorFlow is imported")
    parser.add_argument("--burst", action="store_true", help="feed NaN in the steps that the data mark as bad")
    parser.add_argument("--remedy", choices=["subclass", "by_hand"], help="what is done today without the patch")
    return parser.parse_args(arguments)


def _probe():
    """Says which TensorFlow and which Keras a script gets here."""
    import tensorflow as tf

    keras = getattr(tf.keras, "__version__", None)
    if keras is None:  # TensorFlow 2.13 to 2.15, where it is that of the package keras
        keras = importlib.import_module("keras").__version__
    return {
        "tensorflow": tf.__version__,
        "keras": keras,
        "has_tf_keras": importlib.util.find_spec("tf_keras") is not None,
    }


def _patch():
    """Does what a training script does at its top, with the ``tfls_patch`` that this file belongs to."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    # First on the path for this import only: were root site-packages, a backport there could hide the standard library.
    sys.path.insert(0, root)
    import tfls_patch

    sys.path.remove(root)
    tfls_patch.apply()


def _check_patch(is_wanted):
    """Ends the process if the arm would not be what its name says."""
    tfls_patch = sys.modules.get("tfls_patch")
    is_patched = tfls_patch is not None and bool(tfls_patch.status().patched)
    if is_patched != is_wanted:
        sys.exit("%s\nThis arm is to be %s and is not." % (tfls_patch.status(), "patched" if is_wanted else "stock"))


def _set_policy(tf, name):
    mixed_precision = tf.keras.mixed_precision
    if hasattr(mixed_precision, "set_global_policy"):
        mixed_precision.set_global_policy(name)
    else:  # before TensorFlow 2.4
        mixed_precision.experimental.set_policy(name)


def _keras_model(tf, network, data):
    weights = [data[name] for name in _weight_names(data)]
    inputs = tf.keras.Input(shape=data["x_train"].shape[1:], dtype="float32")
    model = tf.keras.Sequential([inputs] + network.layers(tf.keras, weights))
    model.set_weights(weights)
    return model


def _weight_names(data):
    return sorted(name for name in data if name.startswith("weight_"))


def _with_loss_scale(tf, optimizer, growth_steps, lower):
    """Returns the optimizer with a dynamic loss scale; `lower` says whether by the subclass that lowers it."""
    mixed_precision = tf.keras.mixed_precision
    if hasattr(mixed_precision, "LossScaleOptimizer"):
        cls = mixed_precision.LossScaleOptimizer
        if lower:  # TensorFlow 2.11 and later have two classes behind this name
            cls = _lowered(tf, type(cls(tf.keras.optimizers.SGD())))
        return cls(optimizer, dynamic_growth_steps=growth_steps)
    # Before TensorFlow 2.4 the settings are those of an object of its own.
    loss_scale = tf.compat.v1.train.experimental.DynamicLossScale(increment_period=growth_steps)
    cls = mixed_precision.experimental.LossScaleOptimizer
    return (_lowered(tf, cls) if lower else cls)(optimizer, loss_scale)


def _lowered(tf, cls):
    """Returns a subclass that works at a fraction of the loss scale that its base class keeps.

    So it gets below 1 with the floor still there, to 1 / 1024 at the lowest, and begins 1024 times lower as well.
    """

    class LowerLossScaleOptimizer(cls):
        divisor = 1024.0

        def _fraction(self):
            scale = self.loss_scale
            return (scale() if callable(scale) else scale) / self.divisor

        def get_scaled_loss(self, loss):
            return loss * tf.cast(self._fraction(), loss.dtype)

        def get_unscaled_gradients(self, grads):
            factor = 1.0 / self._fraction()
            return [None if gradient is None else gradient * factor for gradient in grads]

    return LowerLossScaleOptimizer


def _remove_floor(tf, loss_scale):
    """Gives a loss scale object an ``update`` with no bound at all, as people do by hand."""
    names = ("current_loss_scale", "counter", "growth_steps")
    if not hasattr(loss_scale, "current_loss_scale"):  # before TensorFlow 2.4, and in tf.compat.v1
        names = ("_current_loss_scale", "_num_good_steps", "increment_period")
    scale, good, interval = [getattr(loss_scale, name) for name in names]

    def update(gradients):
        checks = [tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients if gradient is not None]
        is_finite = tf.reduce_all(tf.stack(checks))
        multiplier = tf.cast(loss_scale.multiplier, tf.float32)
        current, count = tf.identity(scale), tf.identity(good) + 1
        grows = count >= tf.cast(interval, count.dtype)
        taken = tf.where(grows, current * multiplier, current)
        counted = tf.where(tf.logical_or(grows, tf.logical_not(is_finite)), tf.zeros_like(count), count)
        with tf.control_dependencies([current, count]):
            operations = [scale.assign(tf.where(is_finite, taken, current / multiplier)), good.assign(counted)]
        return tf.group(*operations), is_finite

    loss_scale.update = update


def _scaling_methods(optimizer):
    """Returns the functions that scale the loss and unscale the gradients; they do nothing without a loss scale."""

    def unchanged(value):
        return value

    if hasattr(optimizer, "scale_loss"):  # Keras 3, where apply_gradients does the unscaling
        return optimizer.scale_loss, unchanged
    if hasattr(optimizer, "get_scaled_loss"):
        return optimizer.get_scaled_loss, optimizer.get_unscaled_gradients
    return unchanged, unchanged


def _differ(old, new):
    # As bytes: NaN is not equal to itself.
    return any(a.tobytes() != b.tobytes() for a, b in zip(old, new))


if __name__ == "__main__":
    main()
