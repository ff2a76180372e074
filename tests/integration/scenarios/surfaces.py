"""Every kind of loss scale that this TensorFlow has, behind one small interface, for the scenarios to drive.

A surface trains one weight ``w`` with plain gradient descent on ``loss = w * m``: the gradient is ``m``, so ``m = 1``
is a finite step, ``inf`` or ``nan`` one that must be skipped. ``surfaces(mode)`` gives those that are there;
``more_surfaces(mode)`` those that only the conformance run drives. It trains on a `problem` with more weights.

This module must not import tfls_patch: half of the scenarios compare with stock.
"""

import functools
import os
import sys
import tempfile

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

from reference import RATE, ContribLossScale, LossScale, Script, TapeTraining, Training

tf1 = tf.compat.v1
VERSION = tuple(int(part) for part in tf.__version__.split(".")[:2])
LEGACY_KERAS = os.environ.get("TF_USE_LEGACY_KERAS") == "1"
KERAS_3 = VERSION >= (2, 16) and not LEGACY_KERAS


class OneWeight(object):
    """``loss = w * m``."""

    shape = []  # of the multipliers that a step takes
    starts = [1.0]

    @staticmethod
    def loss(weights, m):
        return weights[0] * m

    @staticmethod
    def parts(m):
        return [m]

    @staticmethod
    def gradients(parts):
        return list(parts)


class ThreeWeights(object):
    """Two weights with a gradient each, either of which can overflow alone, and one whose gradient is None."""

    shape = [2]
    starts = [1.0, 1.0, 1.0]

    @staticmethod
    def loss(weights, m):
        return weights[0] * m[0] + weights[1] * m[1]

    @staticmethod
    def parts(m):
        return [m[0], m[1]]  # each by itself, or the graph optimizer would put the two scalar factors together

    @staticmethod
    def gradients(parts):
        return list(parts) + [None]


class TwoWeights(ThreeWeights):
    """The same without the third, for what cannot do with a gradient that is None."""

    starts = [1.0, 1.0]

    @staticmethod
    def gradients(parts):
        return list(parts)


class Table(ThreeWeights):
    """A table of two rows, of which the second is looked up twice: its gradient is an ``IndexedSlices``."""

    shape = [2]
    starts = [[[1.0], [1.0]]]
    rows = [0, 1, 1]

    @staticmethod
    def shares(m):
        return tf.reshape(tf.stack([m[0], m[1], 0.0]), [3, 1])

    @classmethod
    def loss(cls, weights, m):
        return tf.reduce_sum(tf.gather(weights[0], cls.rows) * cls.shares(m))

    @classmethod
    def gradients(cls, parts):
        return [tf.IndexedSlices(cls.shares(parts), tf.constant(cls.rows), tf.constant([2, 1]))]


def loss_scales():
    """The namespace with ``DynamicLossScale`` and ``MixedPrecisionLossScaleOptimizer``."""
    return tf1.mixed_precision if VERSION >= (2, 4) else tf1.train.experimental


def keras_sgd():
    return tf.keras.optimizers.SGD(RATE)


def loss_scaled(inner, initial, interval, multiplier=2.0):
    """A ``LossScaleOptimizer`` of ``tf.keras`` around an optimizer; only before 2.4 has it a multiplier."""
    if VERSION < (2, 4):
        scale = loss_scales().DynamicLossScale(initial, interval, multiplier)
        return tf.keras.mixed_precision.experimental.LossScaleOptimizer(inner, scale)
    return tf.keras.mixed_precision.LossScaleOptimizer(inner, initial_scale=initial, dynamic_growth_steps=interval)


def variables_of(owner):
    """The scale and the counter of what holds them: a loss scale, or an optimizer of Keras."""
    if hasattr(owner, "dynamic_scale"):
        return owner.dynamic_scale.value, owner.step_counter.value
    owner = getattr(owner, "_loss_scale", owner)
    if hasattr(owner, "counter"):
        return owner.current_loss_scale, owner.counter
    return owner._current_loss_scale, owner._num_good_steps


class Surface(object):
    """One loss scale under training. ``kind`` is ``eager``, ``function`` or ``graph``."""

    kind = "graph"
    is_bounded_by_stock = True  # whether stock has the floor of 1
    runs_in_stock = True
    problem = OneWeight
    multiplier = 2.0
    takes_multiplier = False  # whether it can have another one
    divides = False  # whether gradients are divided by the scale; otherwise multiplied by its reciprocal
    counts_skipped = False  # whether skipped steps count in the iterations
    is_half = False  # whether gradients pass through float16
    is_reordered = False  # whether TensorFlow may multiply by the scale and its reciprocal in any order
    scale_class, training_class = LossScale, Training  # what the reference makes of it
    every = 1  # after how many steps the state can be seen

    def __init__(self, initial, interval):
        self.initial, self.interval = initial, interval

    def step(self, m):
        raise NotImplementedError

    def state(self):
        """Returns ``(scale, good steps, weight)`` as Python numbers."""
        raise NotImplementedError

    def full_state(self):
        """Returns ``(scale, good steps, weights, iterations)``; iterations are None where nothing counts them."""
        raise NotImplementedError

    def set_scale(self, value):
        raise NotImplementedError

    def restore(self, scale, good):
        """Puts a scale and a counter in place, as a checkpoint would."""
        raise NotImplementedError

    def reset(self, scale):
        """Begins anew with this scale, in the graph that is there."""
        raise NotImplementedError

    def adapted(self, script):
        """Returns the script that is played in place of one."""
        return script

    def play(self, scripts):
        """Plays `Script`s, each from the beginning; returns for each the full states after every `every` steps."""
        return [self._play(script) for script in scripts]

    def reference(self, setup):
        """Returns the `Training` that this one must equal."""
        weights = np.ravel(self.problem.starts)
        return self.training_class(self.scale_class(setup), weights, self.divides, self.is_half, self.counts_skipped)

    def _play(self, script):
        states = []
        self.reset(script.initial)
        for event in script.events:
            if event[0] == "restore":
                self.restore(*event[1:])
            else:
                self.step(event[1:])
                states.append(self.full_state())
        return states

    def graph_defs(self):
        """The graph(s) of one train step, or None where there is no graph."""
        return None


# --- eager mode ----------------------------------------------------------------------------------------------------


class _Eager(Surface):
    """Common to what runs eagerly or in a ``tf.function``; subclasses give `_train` and the state variables."""

    options = {}  # of the tf.function

    def __init__(self, initial, interval, in_function):
        super(_Eager, self).__init__(initial, interval)
        self.weights = self.make_weights()
        self.w = self.weights[0]
        self.build()
        signature = [tf.TensorSpec(self.problem.shape, tf.float32)]
        self.call = tf.function(self._train, input_signature=signature, **self.options) if in_function else self._train
        self.kind = "function" if in_function else "eager"

    def make_weights(self):
        return [tf.Variable(start) for start in self.problem.starts]

    def step(self, m):
        self.call(tf.constant(m, tf.float32))

    def state(self):
        scale, good = self.variables()
        return _number(scale), int(_number(good)), _number(self.w)

    def full_state(self):
        scale, good = self.variables()
        weights = [float(each) for weight in self.weights for each in np.ravel(weight.numpy())]
        iterations = int(_number(self.iterations())) if hasattr(self, "optimizer") else None
        return _number(scale), int(_number(good)), tuple(weights), iterations

    def set_scale(self, value):
        self.variables()[0].assign(value)

    def restore(self, scale, good):
        for variable, value in zip(self.variables(), (scale, good)):
            variable.assign(value)

    def reset(self, scale):
        self.restore(scale, 0)
        for weight, start in zip(self.weights, self.problem.starts):
            weight.assign(start)
        if hasattr(self, "optimizer"):
            self.iterations().assign(0)

    def iterations(self):
        # Of the inner one in Keras 3: old releases do not hand the property on.
        return (self.optimizer.inner_optimizer if KERAS_3 else self.optimizer).iterations

    def graph_defs(self):
        if self.kind == "eager":
            return None
        return [self.call.get_concrete_function().graph.as_graph_def()]


class DynamicLossScaleSurface(_Eager):
    """``DynamicLossScale.update`` driven by hand."""

    takes_multiplier = True

    def build(self):
        self.owner = loss_scales().DynamicLossScale(self.initial, self.interval, self.multiplier)

    def _train(self, m):
        scale = tf.convert_to_tensor(self.owner())
        gradients = self.problem.gradients([(each * scale) * (1.0 / scale) for each in self.problem.parts(m)])
        _, finite = self.owner.update(gradients + [None])
        tf.cond(finite, lambda: tf.group(*self.descend(gradients)), tf.no_op)

    def descend(self, gradients):
        pairs = [(weight, gradient) for weight, gradient in zip(self.weights, gradients) if gradient is not None]
        return [weight.assign_sub(RATE * tf.convert_to_tensor(gradient)) for weight, gradient in pairs]

    def variables(self):
        return self.owner._current_loss_scale, self.owner._num_good_steps


class KerasSurface(_Eager):
    """``LossScaleOptimizer`` of Keras 2 in a custom loop; subclasses say which class."""

    takes_multiplier = VERSION < (2, 4)
    counts_skipped = VERSION >= (2, 3)

    def build(self):
        self.optimizer = self.make_optimizer()
        self.owner = self.optimizer._loss_scale
        if hasattr(type(self.optimizer), "build"):
            self.optimizer.build(self.weights)
        elif hasattr(self.optimizer, "_create_all_weights"):
            self.optimizer._create_all_weights(self.weights)  # so that the first trace creates no variables

    def make_optimizer(self):
        return loss_scaled(keras_sgd(), self.initial, self.interval, self.multiplier)

    def _train(self, m):
        optimizer = self.optimizer
        if VERSION < (1, 15):
            optimizer.minimize(lambda: self.problem.loss(self.weights, m), self.weights)
            return
        with tf.GradientTape() as tape:
            scaled = optimizer.get_scaled_loss(self.problem.loss(self.weights, m))
        gradients = optimizer.get_unscaled_gradients(tape.gradient(scaled, self.weights))
        optimizer.apply_gradients(list(zip(gradients, self.weights)))

    def iterations(self):
        return (self.optimizer if VERSION >= (1, 15) else self.optimizer._optimizer).iterations

    def variables(self):
        return variables_of(self.owner)


class LegacyKerasSurface(KerasSurface):
    """The class for legacy optimizers, where new ones exist beside them (2.11 on)."""

    def make_optimizer(self):
        return tf.keras.mixed_precision.LossScaleOptimizer(
            tf.keras.optimizers.legacy.SGD(RATE), initial_scale=self.initial, dynamic_growth_steps=self.interval
        )


class NewKerasSurface(KerasSurface):
    """The class for new optimizers while they are still experimental (2.10; that of 2.9 does not work)."""

    def make_optimizer(self):
        return tf.keras.mixed_precision.LossScaleOptimizer(
            tf.keras.optimizers.experimental.SGD(RATE), initial_scale=self.initial, dynamic_growth_steps=self.interval
        )


class ExperimentalKerasSurface(KerasSurface):
    """The experimental optimizer of 2.4 - 2.8, which copies the settings of a ``DynamicLossScale``."""

    def make_optimizer(self):
        scale = loss_scales().DynamicLossScale(self.initial, self.interval)
        return tf.keras.mixed_precision.experimental.LossScaleOptimizer(keras_sgd(), scale)


class VendoredKerasSurface(KerasSurface):
    """The copy of Keras 2 in ``tensorflow.python.keras`` that every TensorFlow from 2.6 on carries along."""

    def make_optimizer(self):
        from tensorflow.python.keras.mixed_precision.loss_scale_optimizer import LossScaleOptimizer
        from tensorflow.python.keras.optimizer_v2.gradient_descent import SGD

        return LossScaleOptimizer(SGD(RATE), initial_scale=self.initial, dynamic_growth_steps=self.interval)


class Keras3Surface(_Eager):
    """Keras 3, stateful, on TensorFlow."""

    is_bounded_by_stock = False
    divides = True

    def make_weights(self):
        import keras

        return [keras.Variable(start) for start in self.problem.starts]

    def build(self):
        self.owner = self.optimizer = self.make_optimizer()
        self.optimizer.build(self.weights)

    def make_optimizer(self):
        import keras

        return keras.optimizers.LossScaleOptimizer(
            keras.optimizers.SGD(RATE), initial_scale=self.initial, dynamic_growth_steps=self.interval
        )

    def _train(self, m):
        self.optimizer.apply(self.scaled_gradients(m), self.weights)

    def scaled_gradients(self, m):
        values = [weight.value for weight in self.weights]
        with tf.GradientTape() as tape:
            scaled = self.optimizer.scale_loss(self.problem.loss(values, m))
        return tape.gradient(scaled, values)

    def variables(self):
        return self.optimizer.dynamic_scale, self.optimizer.step_counter


# --- what only the conformance run drives --------------------------------------------------------------------------


def sparse(cls):
    """The same with gradients that are ``IndexedSlices``."""
    return type(cls)("Sparse" + cls.__name__, (cls,), {"problem": Table, "is_reordered": True})


def compiled(cls):
    """The same, compiled by XLA."""
    return type(cls)("Compiled" + cls.__name__, (cls,), {"options": {"jit_compile": True}, "is_reordered": True})


class TapeSurface(DynamicLossScaleSurface):
    """``LossScaleGradientTape`` (TF 2.1 - 2.7), which retries at once until the gradients are finite."""

    training_class = TapeTraining
    runs_in_stock = VERSION >= (2, 2)  # stock of 2.1 does not work with a gradient that is None

    def _train(self, m):
        from tensorflow.python.training.experimental.loss_scaling_gradient_tape import LossScaleGradientTape

        with LossScaleGradientTape(self.owner) as tape:
            loss = self.problem.loss(self.weights, m)
        gradients = tape.gradient(loss, self.weights)
        finite = tf.reduce_all([tf.math.is_finite(each) for each in gradients if each is not None])
        tf.cond(finite, lambda: tf.group(*self.descend(gradients)), tf.no_op)


class GraphRewriteKerasSurface(KerasSurface):
    """What the graph rewrite makes of a Keras optimizer (TF 2.0 - 2.3)."""

    def make_optimizer(self):
        scale = loss_scales().DynamicLossScale(self.initial, self.interval, self.multiplier)
        return tf.train.experimental.enable_mixed_precision_graph_rewrite(keras_sgd(), scale)


def fit(cls, **options):
    """``model.fit`` with the optimizer of another surface, under ``mixed_float16``."""
    return type(cls)("Fit" + cls.__name__, (_Fit, cls), {"fit_options": options})


class _Fit(_Eager):
    """One ``fit`` over all the scripts: a batch is a step, and carries the multipliers."""

    is_half = True

    def make_weights(self):
        layer = _half_layer()
        output = tf.keras.layers.Activation("linear", dtype="float32")
        self.model = tf.keras.Sequential([tf.keras.layers.InputLayer((2,)), layer, output])
        return list(layer._trainable_weights if hasattr(layer, "_trainable_weights") else layer.trainable_weights)

    def build(self):
        super(_Fit, self).build()
        options = dict(self.fit_options)
        if KERAS_3:
            options["jit_compile"] = False  # XLA leaves out conversions to float16, and with them the overflow
        self.every = options.get("steps_per_execution", 1)
        self.model.compile(self.optimizer, loss=lambda _, outputs: tf.reduce_mean(outputs), **options)

    def adapted(self, script):
        """Fills up with steps that do nothing, so that what is restored is so between two executions."""
        events, rest = [], 0
        for event in script.events + [("end",)]:
            if event[0] != "step" and rest:
                events += [("step", 0.0, 0.0)] * (self.every - rest)
                rest = 0
            events.append(event)
            rest = (rest + 1) % self.every if event[0] == "step" else 0
        return script._replace(events=events[:-1])

    def play(self, scripts):
        player = _Player(self, scripts)
        batches = np.array(player.batches, np.float32)
        labels = np.zeros([len(batches), 1], np.float32)
        callbacks = [_callback(player)]
        self.model.fit(batches, labels, batch_size=1, shuffle=False, verbose=0, callbacks=callbacks)
        return player.states

    def graph_defs(self):
        if VERSION < (2, 2):
            return None  # `fit` has no train step to trace yet
        step = tf.function(lambda x, y: self.model.train_step((x, y)))
        batch = tf.TensorSpec([1, 2], tf.float32), tf.TensorSpec([1, 1], tf.float32)
        return [step.get_concrete_function(*batch).graph.as_graph_def()]


class _Player(object):
    """Does what scripts say between the batches of a ``fit``, and notes the states after each execution."""

    def __init__(self, surface, scripts):
        self.surface, self.batches, self.states = surface, [], []
        self.actions = {}  # number of a batch -> what is to be done before it
        self.at = 0
        for script in scripts:
            pending = [(self.begin_script,), (surface.reset, script.initial)]
            for event in surface.adapted(script).events:
                if event[0] == "restore":
                    pending.append((surface.restore,) + event[1:])
                    continue
                self.actions[len(self.batches)] = pending
                self.batches.append(event[1:])
                pending = []

    def begin_script(self):
        self.states.append([])

    def begin(self):
        for action in self.actions[self.at]:
            action[0](*action[1:])

    def end(self):
        self.at += self.surface.every
        self.states[-1].append(self.surface.full_state())


def _callback(player):
    class Callback(tf.keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            player.begin()

        def on_train_batch_end(self, batch, logs=None):
            player.end()

    return Callback()


def _half_layer():
    """A layer in float16 that has the loss of `ThreeWeights` as its output."""
    policies = tf.keras.mixed_precision if VERSION >= (2, 4) else tf.keras.mixed_precision.experimental

    class Layer(tf.keras.layers.Layer):
        def build(self, shape):
            self.w, self.v, self.u = [self.add_weight(name=name, shape=(), initializer="ones") for name in "wvu"]
            super(Layer, self).build(shape)

        def call(self, inputs):
            return inputs[:, :1] * self.w + inputs[:, 1:] * self.v

    return Layer(dtype=policies.Policy("mixed_float16"))


# --- graph mode ----------------------------------------------------------------------------------------------------


class _Graph(Surface):
    """A TF1 graph and session of its own."""

    def __init__(self, initial, interval, in_function=False):
        super(_Graph, self).__init__(initial, interval)
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.m = tf1.placeholder(tf.float32, self.problem.shape)
            self.weights = [
                tf1.get_variable("w%d" % i, initializer=start, use_resource=True)
                for i, start in enumerate(self.problem.starts)
            ]
            self.iterations = self.make_iterations()
            self.train = self.build()
            if self.iterations is None:
                self.iterations = KerasSurface.iterations(self)
            self.read = list(self.variables()) + self.weights[:1]
            self.read_all = list(self.variables()) + self.weights + [self.iterations]
            self.new_scale, self.new_good = tf1.placeholder(tf.float32, []), tf1.placeholder(tf.int64, [])
            self.assign = tf1.assign(self.read[0], self.new_scale)
            self.assign_both = self.assign, tf1.assign(
                self.read[1], tf.cast(self.new_good, self.read[1].dtype.base_dtype)
            )
            initialize = tf1.global_variables_initializer()
        self.session = tf1.Session(graph=self.graph)
        self.session.run(initialize)
        with self.graph.as_default():
            self.begin = [each.initializer for each in self.weights + [self.iterations] + self.more_variables()]

    def make_iterations(self):
        return None

    def more_variables(self):
        """What else is state."""
        return []

    def loss(self):
        return self.problem.loss(self.weights, self.m)

    def step(self, m):
        self.session.run(self.train, {self.m: m})

    def state(self):
        scale, good, w = self.session.run(self.read)
        return float(scale), int(good), float(w)

    def full_state(self):
        values = self.session.run(self.read_all)
        weights = [float(each) for weight in values[2:-1] for each in np.ravel(weight)]
        return float(values[0]), int(values[1]), tuple(weights), int(values[-1])

    def set_scale(self, value):
        self.session.run(self.assign, {self.new_scale: value})

    def restore(self, scale, good):
        self.session.run(self.assign_both, {self.new_scale: scale, self.new_good: good})

    def reset(self, scale):
        self.session.run(self.begin)
        self.restore(scale, 0)

    def graph_defs(self):
        return [self.graph.as_graph_def()]


class _Tf1Optimizer(_Graph):
    """Common to what wraps an optimizer of TF1."""

    def make_iterations(self):
        return tf1.train.get_or_create_global_step()

    def minimize(self):
        return self.optimizer.minimize(self.loss(), self.iterations, self.weights)


class Tf1OptimizerSurface(_Tf1Optimizer):
    """``MixedPrecisionLossScaleOptimizer``, which the graph rewrite uses too."""

    takes_multiplier = True

    def build(self):
        self.owner = loss_scales().DynamicLossScale(self.initial, self.interval, self.multiplier)
        self.optimizer = self.wrap(tf1.train.GradientDescentOptimizer(RATE))
        return self.minimize()

    def wrap(self, inner):
        return loss_scales().MixedPrecisionLossScaleOptimizer(inner, self.owner)

    def variables(self):
        return self.owner._current_loss_scale, self.owner._num_good_steps


class KerasGraphSurface(_Graph):
    """The Keras optimizer in a TF1 graph."""

    takes_multiplier, counts_skipped = KerasSurface.takes_multiplier, KerasSurface.counts_skipped

    def build(self):
        self.optimizer = KerasSurface.make_optimizer(self)
        self.owner = self.optimizer._loss_scale
        return self.optimizer.get_updates(self.loss(), self.weights[: 2 if len(self.weights) > 1 else 1])

    def variables(self):
        return KerasSurface.variables(self)


class GraphRewriteSurface(Tf1OptimizerSurface):
    """The same, made by the graph rewrite."""

    def wrap(self, inner):
        return loss_scales().enable_mixed_precision_graph_rewrite(inner, self.owner)


class ContribSurface(_Tf1Optimizer):
    """``tf.contrib.mixed_precision``, set up to halve at every bad step."""

    backoff = {"decr_every_n_nan_or_inf": 1, "decr_ratio": 0.5}

    def build(self):
        contrib = tf.contrib.mixed_precision
        self.owner = contrib.ExponentialUpdateLossScaleManager(
            self.initial, self.interval, incr_ratio=2, **self.backoff
        )
        self.optimizer = contrib.LossScaleOptimizer(tf1.train.GradientDescentOptimizer(RATE), self.owner)
        return self.minimize()

    def variables(self):
        return self.owner._loss_scale, self.owner._num_good_steps

    def more_variables(self):
        return [self.owner._num_bad_steps]


class ContribDefaultSurface(ContribSurface):
    """The same with contrib's own defaults: times 0.8 at every second bad step."""

    backoff = {}
    scale_class = ContribLossScale


# --- which of them are here ------------------------------------------------------------------------------------------


def surfaces(mode):
    """Returns ``{name: function(initial, interval) -> Surface}`` for a process in ``eager`` or ``graph`` mode."""
    found = {}

    def both(name, cls):
        found[name + " eager"] = functools.partial(cls, in_function=False)
        found[name + " function"] = in_function(cls)

    if mode == "graph":
        found["MixedPrecisionLossScaleOptimizer"] = Tf1OptimizerSurface
        if (1, 15) <= VERSION < (2, 11) or VERSION < (1, 15):
            found["keras in a graph"] = KerasGraphSurface
        if VERSION < (2, 0):
            found["contrib"] = ContribSurface
        return found
    both("DynamicLossScale", DynamicLossScaleSurface)
    if KERAS_3:
        both("keras 3", Keras3Surface)
    else:
        both("keras", KerasSurface)
    if (2, 11) <= VERSION and not KERAS_3:
        both("keras legacy", LegacyKerasSurface)
    if VERSION == (2, 10):
        both("keras new", NewKerasSurface)
    if (2, 4) <= VERSION < (2, 9):
        both("keras experimental", ExperimentalKerasSurface)
    if VERSION >= (2, 6):
        both("keras vendored", VendoredKerasSurface)
    return found


def more_surfaces(mode):
    """Returns those that only the conformance run drives, in the same form."""
    if mode == "graph":
        found = {
            "graph rewrite": GraphRewriteSurface,
            "MixedPrecisionLossScaleOptimizer sparse": sparse(Tf1OptimizerSurface),
        }
        if VERSION < (2, 0):
            found["contrib defaults"] = ContribDefaultSurface
        return found
    keras = Keras3Surface if KERAS_3 else KerasSurface
    found = {
        "DynamicLossScale sparse": in_function(sparse(DynamicLossScaleSurface)),
        "keras sparse": in_function(sparse(keras)),
    }
    if (2, 1) <= VERSION < (2, 8):
        found["gradient tape"] = in_function(TapeSurface)
    if (2, 0) <= VERSION < (2, 4):
        found["graph rewrite of keras"] = in_function(GraphRewriteKerasSurface)
    if VERSION >= (2, 1):
        found["fit"] = in_function(fit(keras))
    if VERSION >= (2, 4):
        found["fit, several steps per execution"] = in_function(fit(keras, steps_per_execution=3))
    if VERSION >= (2, 5):
        found["keras compiled"] = in_function(compiled(keras))
    return found


def all_surfaces(mode):
    return dict(surfaces(mode), **more_surfaces(mode))


def use_more_weights():
    """Has every surface that is made from now on train on more than one weight."""
    Surface.problem = ThreeWeights
    ContribSurface.problem = TwoWeights  # it cannot do with a gradient that is None


def in_function(cls):
    """A surface that only runs in a ``tf.function``."""
    return functools.partial(cls, in_function=True)


def class_of(make):
    """The class of the surfaces that one of the functions above makes."""
    return getattr(make, "func", make)


def start(mode):
    """Puts the process into the mode; before anything else is done with TensorFlow. Silences what stock has to say."""
    if mode == "graph":
        tf1.disable_eager_execution()
    else:
        tf1.enable_eager_execution()
    tf1.logging.set_verbosity(tf1.logging.ERROR)


def _number(variable):
    value = variable.numpy() if hasattr(variable, "numpy") else np.array(variable)
    return float(value)


def node_counts(graph_defs):
    """Returns ``(nodes in all, {op: count})`` over the graphs and the functions that they call."""
    ops = {}
    for graph_def in graph_defs:
        nodes = list(graph_def.node)
        for function in graph_def.library.function:
            nodes.extend(function.node_def)
        for node in nodes:
            ops[node.op] = ops.get(node.op, 0) + 1
    return sum(ops.values()), ops


def finite_path_nodes(graph_def):
    """Returns how many nodes a step with finite gradients passes."""
    return sum(finite_path_ops(graph_def).values())


def finite_path_ops(graph_def):
    """Returns ``{op: count}`` of what a step with finite gradients passes: the branches taken, and what is outside.

    The outer conditions ask whether all is finite and take their first branch; those inside it ask whether it is time
    to grow and take the second. A loop is passed once.
    """
    if any(node.op == "Switch" for node in graph_def.node):
        return _counted(_ops_alive(graph_def))
    functions = {function.signature.name: function.node_def for function in graph_def.library.function}

    def passed(nodes, depth):
        found = [node.op for node in nodes]
        for node in nodes:
            for name, deeper in _called(node, depth):
                found += passed(functions[name], deeper)
        return found

    return _counted(passed(graph_def.node, 0))


def _called(node, depth):
    """The functions that a node calls on the way of a finite step, with the depth of conditions there."""
    if node.op in ("If", "StatelessIf"):
        return [(node.attr["then_branch" if depth == 0 else "else_branch"].func.name, depth + 1)]
    if node.op in ("PartitionedCall", "StatefulPartitionedCall"):
        return [(node.attr["f"].func.name, depth)]
    if node.op in ("While", "StatelessWhile"):
        return [(node.attr[part].func.name, depth) for part in ("cond", "body")]
    return []


def _counted(ops):
    return {op: ops.count(op) for op in set(ops)}


def _ops_alive(graph_def):
    """The ops of nodes without dead inputs, where conditions are made of Switch and Merge in one flat graph."""
    inputs = {node.name: [_source(text) for text in node.input] for node in graph_def.node}
    ops = {node.name: node.op for node in graph_def.node}
    inside, dead = {}, {}

    def is_inside(name):
        """Whether a value comes out of a branch: such a predicate is one of an inner condition."""
        if name not in inside:
            inside[name] = False
            inside[name] = ops[name] == "Switch" or any(is_inside(source) for source, _ in inputs[name])
        return inside[name]

    def is_dead(name):
        if name not in dead:
            dead[name] = False
            states = [is_dead_output(*each) for each in inputs[name]]
            dead[name] = all(states) if ops[name] == "Merge" else any(states)
        return dead[name]

    def is_dead_output(name, port):
        if is_dead(name):
            return True
        if ops[name] != "Switch" or port is None:
            return False
        taken = 0 if is_inside(inputs[name][1][0]) else 1
        return port != taken

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10000)
    try:
        return [node.op for node in graph_def.node if not is_dead(node.name)]
    finally:
        sys.setrecursionlimit(limit)


def _source(text):
    """``"^name"``, ``"name"`` or ``"name:1"`` as ``(name, port)``; a control input has no port."""
    if text.startswith("^"):
        return text[1:], None
    name, _, port = text.partition(":")
    return name, int(port or 0)


def listen_to_stderr():
    """Listens to what TensorFlow prints; returns ``said()``: what there was since the last call."""
    file = tempfile.TemporaryFile()
    sys.stderr.flush()
    sys.stderr = os.fdopen(os.dup(2), "w")  # for Python itself: tracebacks are to be seen
    os.dup2(file.fileno(), 2)

    def said():
        file.seek(0)
        text = file.read().decode("utf-8", "replace")
        file.seek(0)
        file.truncate()
        return text

    return said


def fail(message):
    sys.exit("FAILED: " + message)
