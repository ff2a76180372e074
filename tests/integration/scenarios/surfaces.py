"""Every kind of loss scale that this TensorFlow has, behind one small interface, for the scenarios to drive.

A surface trains one weight ``w`` with plain gradient descent on ``loss = w * m``: the gradient is ``m``, so ``m = 1``
is a finite step, ``inf`` or ``nan`` one that must be skipped. ``surfaces(mode)`` gives those that are there.

This module must not import tfls_patch: half of the scenarios compare with stock.
"""

import os
import sys

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
VERSION = tuple(int(part) for part in tf.__version__.split(".")[:2])
LEGACY_KERAS = os.environ.get("TF_USE_LEGACY_KERAS") == "1"
KERAS_3 = VERSION >= (2, 16) and not LEGACY_KERAS

RATE = 2.0**-10  # a power of two, so that weights are exact and equality means equality


def loss_scales():
    """The namespace with ``DynamicLossScale`` and ``MixedPrecisionLossScaleOptimizer``."""
    return tf1.mixed_precision if VERSION >= (2, 4) else tf1.train.experimental


def keras_sgd():
    return tf.keras.optimizers.SGD(RATE)


class Surface(object):
    """One loss scale under training. ``kind`` is ``eager``, ``function`` or ``graph``."""

    kind = "graph"
    is_bounded_by_stock = True  # whether stock has the floor of 1

    def __init__(self, initial, interval):
        self.initial, self.interval = initial, interval

    def step(self, m):
        raise NotImplementedError

    def state(self):
        """Returns ``(scale, good steps, weight)`` as Python numbers."""
        raise NotImplementedError

    def set_scale(self, value):
        raise NotImplementedError

    def graph_defs(self):
        """The graph(s) of one train step, or None where there is no graph."""
        return None


# --- eager mode ----------------------------------------------------------------------------------------------------


class _Eager(Surface):
    """Common to what runs eagerly or in a ``tf.function``; subclasses give `_train` and the state variables."""

    def __init__(self, initial, interval, in_function):
        super(_Eager, self).__init__(initial, interval)
        self.w = tf.Variable(1.0)
        self.build()
        self.call = (
            tf.function(self._train, input_signature=[tf.TensorSpec([], tf.float32)]) if in_function else self._train
        )
        self.kind = "function" if in_function else "eager"

    def step(self, m):
        self.call(tf.constant(m, tf.float32))

    def state(self):
        scale, good = self.variables()
        return _number(scale), int(_number(good)), _number(self.w)

    def set_scale(self, value):
        self.variables()[0].assign(value)

    def graph_defs(self):
        if self.kind == "eager":
            return None
        return [self.call.get_concrete_function().graph.as_graph_def()]


class DynamicLossScaleSurface(_Eager):
    """``DynamicLossScale.update`` driven by hand."""

    def build(self):
        self.owner = loss_scales().DynamicLossScale(self.initial, self.interval)

    def _train(self, m):
        scale = tf.convert_to_tensor(self.owner())
        _, finite = self.owner.update([(m * scale) * (1.0 / scale), None])
        tf.cond(finite, lambda: tf.group(self.w.assign_sub(RATE * m)), tf.no_op)

    def variables(self):
        return self.owner._current_loss_scale, self.owner._num_good_steps


class KerasSurface(_Eager):
    """``LossScaleOptimizer`` of Keras 2 in a custom loop; subclasses say which class."""

    def build(self):
        self.optimizer = self.make_optimizer()
        self.owner = self.optimizer._loss_scale
        if hasattr(type(self.optimizer), "build"):
            self.optimizer.build([self.w])
        elif hasattr(self.optimizer, "_create_all_weights"):
            self.optimizer._create_all_weights([self.w])  # so that the first trace creates no variables

    def make_optimizer(self):
        if VERSION >= (2, 4):
            return tf.keras.mixed_precision.LossScaleOptimizer(
                keras_sgd(), initial_scale=self.initial, dynamic_growth_steps=self.interval
            )
        scale = loss_scales().DynamicLossScale(self.initial, self.interval)
        return tf.keras.mixed_precision.experimental.LossScaleOptimizer(keras_sgd(), scale)

    def _train(self, m):
        optimizer = self.optimizer
        if VERSION < (1, 15):
            optimizer.minimize(lambda: self.w * m, [self.w])
            return
        with tf.GradientTape() as tape:
            scaled = optimizer.get_scaled_loss(self.w * m)
        gradients = optimizer.get_unscaled_gradients(tape.gradient(scaled, [self.w]))
        optimizer.apply_gradients(list(zip(gradients, [self.w])))

    def variables(self):
        if hasattr(self.owner, "counter"):
            return self.owner.current_loss_scale, self.owner.counter
        return self.owner._current_loss_scale, self.owner._num_good_steps


class LegacyKerasSurface(KerasSurface):
    """The class for legacy optimizers, where new ones exist beside them (2.11 on)."""

    def make_optimizer(self):
        return tf.keras.mixed_precision.LossScaleOptimizer(
            tf.keras.optimizers.legacy.SGD(RATE), initial_scale=self.initial, dynamic_growth_steps=self.interval
        )


class NewKerasSurface(KerasSurface):
    """The class for new optimizers while they are still experimental (2.10)."""

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

    def build(self):
        import keras

        self.owner = self.optimizer = keras.optimizers.LossScaleOptimizer(
            keras.optimizers.SGD(RATE), initial_scale=self.initial, dynamic_growth_steps=self.interval
        )
        self.w = keras.Variable(1.0)
        self.optimizer.build([self.w])

    def _train(self, m):
        with tf.GradientTape() as tape:
            scaled = self.optimizer.scale_loss(self.w.value * m)
        self.optimizer.apply([tape.gradient(scaled, self.w.value)], [self.w])

    def variables(self):
        return self.optimizer.dynamic_scale, self.optimizer.step_counter


# --- graph mode ----------------------------------------------------------------------------------------------------


class _Graph(Surface):
    """A TF1 graph and session of its own."""

    def __init__(self, initial, interval, in_function=False):
        super(_Graph, self).__init__(initial, interval)
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.m = tf1.placeholder(tf.float32, [])
            self.w = tf1.get_variable("w", initializer=1.0, use_resource=True)
            self.train = self.build()
            self.read = list(self.variables()) + [self.w]
            self.new_scale = tf1.placeholder(tf.float32, [])
            self.assign = tf1.assign(self.read[0], self.new_scale)
            initialize = tf1.global_variables_initializer()
        self.session = tf1.Session(graph=self.graph)
        self.session.run(initialize)

    def step(self, m):
        self.session.run(self.train, {self.m: m})

    def state(self):
        scale, good, w = self.session.run(self.read)
        return float(scale), int(good), float(w)

    def set_scale(self, value):
        self.session.run(self.assign, {self.new_scale: value})

    def graph_defs(self):
        return [self.graph.as_graph_def()]


class Tf1OptimizerSurface(_Graph):
    """``MixedPrecisionLossScaleOptimizer``, which the graph rewrite uses too."""

    def build(self):
        self.owner = loss_scales().DynamicLossScale(self.initial, self.interval)
        inner = tf1.train.GradientDescentOptimizer(RATE)
        self.optimizer = loss_scales().MixedPrecisionLossScaleOptimizer(inner, self.owner)
        return self.optimizer.minimize(self.w * self.m)

    def variables(self):
        return self.owner._current_loss_scale, self.owner._num_good_steps


class KerasGraphSurface(_Graph):
    """The Keras optimizer in a TF1 graph."""

    def build(self):
        self.optimizer = KerasSurface.make_optimizer(self)
        self.owner = self.optimizer._loss_scale
        return self.optimizer.get_updates(self.w * self.m, [self.w])

    def variables(self):
        return KerasSurface.variables(self)


class ContribSurface(_Graph):
    """``tf.contrib.mixed_precision``, set up to halve at every bad step."""

    backoff = {"decr_every_n_nan_or_inf": 1, "decr_ratio": 0.5}

    def build(self):
        contrib = tf.contrib.mixed_precision
        self.owner = contrib.ExponentialUpdateLossScaleManager(
            self.initial, self.interval, incr_ratio=2, **self.backoff
        )
        self.optimizer = contrib.LossScaleOptimizer(tf1.train.GradientDescentOptimizer(RATE), self.owner)
        return self.optimizer.minimize(self.w * self.m)

    def variables(self):
        return self.owner._loss_scale, self.owner._num_good_steps


class ContribDefaultSurface(ContribSurface):
    """The same with contrib's own defaults: times 0.8 at every second bad step."""

    backoff = {}


# --- which of them are here ------------------------------------------------------------------------------------------


def surfaces(mode):
    """Returns ``{name: function(initial, interval) -> Surface}`` for a process in ``eager`` or ``graph`` mode."""
    found = {}

    def both(name, cls):
        found[name + " eager"] = lambda initial, interval: cls(initial, interval, False)
        found[name + " function"] = lambda initial, interval: cls(initial, interval, True)

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
    """Returns how many nodes a step with finite gradients passes: the branches that it takes, and what is outside.

    The outer conditions ask whether all is finite and take their first branch; those inside it ask whether it is time
    to grow and take the second.
    """
    if any(node.op == "Switch" for node in graph_def.node):
        return _nodes_alive(graph_def)
    functions = {function.signature.name: function.node_def for function in graph_def.library.function}

    def passed(nodes, depth):
        total = len(nodes)
        for node in nodes:
            if node.op in ("If", "StatelessIf"):
                branch = "then_branch" if depth == 0 else "else_branch"
                total += passed(functions[node.attr[branch].func.name], depth + 1)
            elif node.op in ("PartitionedCall", "StatefulPartitionedCall"):
                total += passed(functions[node.attr["f"].func.name], depth)
        return total

    return passed(graph_def.node, 0)


def _nodes_alive(graph_def):
    """The same where conditions are made of Switch and Merge in one flat graph: nodes without dead inputs."""
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
        return sum(not is_dead(node.name) for node in graph_def.node)
    finally:
        sys.setrecursionlimit(limit)


def _source(text):
    """``"^name"``, ``"name"`` or ``"name:1"`` as ``(name, port)``; a control input has no port."""
    if text.startswith("^"):
        return text[1:], None
    name, _, port = text.partition(":")
    return name, int(port or 0)


def fail(message):
    sys.exit("FAILED: " + message)
