"""What ``python -m tfls_patch diagnose`` sees of a training, and what it concludes.

While a diagnosis is under way, the patched methods hand over each loss before it is scaled and each set of unscaled
gradients; a callback notes whether they are finite. Otherwise nothing of this is in any graph.

The conclusion is drawn from the steps that were skipped with the scale at its floor::

    the loss itself was not finite in most of them:      the forward pass; no loss scale helps
    it was finite, and it has grown a thousandfold:      the training diverges: the learning rate
    it was finite:                                       the backward pass, or accumulated gradients
"""

import collections
import functools
import importlib
import math
import sys
import weakref

from tfls_patch import _owners, _rules, _settings, _xla
from tfls_patch._report import scale_text

_GROWTH_OF_A_DIVERGING_LOSS = 1000.0

#: The diagnosis under way, or None.
_current = None


class Diagnosis(object):
    """What was seen: a `Training` for each loss scale, in the order in which their first steps were seen."""

    def __init__(self):
        self.is_compiled = False
        self._trainings = weakref.WeakKeyDictionary()  # owner of the loss scale -> its Training
        self._seen = []  # those with steps
        self._unclaimed_loss = None

    def note_loss(self, owner, loss):
        """Called with the largest absolute value in a loss that is about to be scaled; the owner may be None."""
        if owner is None:
            self._unclaimed_loss = float(loss)
        else:
            self._training(owner).note_loss(float(loss))

    def note_gradients(self, owner, floor, names, scale, is_bad):
        """Called with the scale of a step, and for each gradient whether it is not finite."""
        training = self._training(owner)
        if training not in self._seen:
            self._seen.append(training)
        if self._unclaimed_loss is not None:
            training.note_loss(self._unclaimed_loss)
            self._unclaimed_loss = None
        training.note_gradients(floor, names, scale, is_bad)

    def is_stuck(self):
        """Whether any training was stuck in the end."""
        return any(training.stuck_in_a_row for training in self._seen)

    def __str__(self):
        title = "tfls_patch diagnose: "
        if not self._seen:
            return title + "0 steps seen\n=> " + self._why_nothing_was_seen()
        if len(self._seen) == 1:
            return title + str(self._seen[0])
        texts = [title + "%d loss scales seen" % len(self._seen)]
        texts += ["loss scale %d: %s" % numbered for numbered in enumerate(self._seen, 1)]
        return "\n".join(texts)

    def _training(self, owner):
        return self._trainings.setdefault(owner, Training())

    def _why_nothing_was_seen(self):
        if _settings.killed():
            return "nothing was patched: TFLS_PATCH=0, the kill switch, is on."
        hidden = "; XLA compiles them (jit_compile=True): compile without it to see them" if self.is_compiled else ""
        return "no step with a dynamic loss scale was seen%s." % hidden


class Training(object):
    """What was seen of one loss scale."""

    def __init__(self):
        self.steps = 0
        self.skipped = 0
        self.stuck = 0  # skipped with the scale at the floor
        self.stuck_in_a_row = 0  # of these, since the last step that was taken
        self.stuck_without_loss = 0  # of these, with a loss that was not finite
        self.scales = []
        self.first_loss = self.last_loss = None
        self.bad_gradients = collections.Counter()
        self._loss = None

    def note_loss(self, loss):
        self._loss = loss
        if math.isfinite(loss):
            self.first_loss = loss if self.first_loss is None else self.first_loss
            self.last_loss = loss

    def note_gradients(self, floor, names, scale, is_bad):
        scale, bad = float(scale), [name for name, bad in zip(names, is_bad) if bad]
        self.steps += 1
        self.scales.append(scale)
        if not bad:
            self.stuck_in_a_row = 0
        else:
            self.skipped += 1
            self.bad_gradients.update(bad)
            if scale <= floor:
                self.stuck += 1
                self.stuck_in_a_row += 1
                self.stuck_without_loss += self._loss is not None and not math.isfinite(self._loss)

    def __str__(self):
        lines = ["%d steps seen, %d of them skipped" % (self.steps, self.skipped)]
        shown = tuple(map(scale_text, (self.scales[0], self.scales[-1], min(self.scales))))
        lines.append("  loss scale     %s at first, %s at last, %s at the lowest" % shown)
        counts = (self.stuck, self.stuck_without_loss)
        lines.append("  at the floor   %d skipped, %d of these with a loss that is not finite before scaling" % counts)
        if self.first_loss is not None:
            lines.append(
                "  loss           %.6g at first, %.6g at last; finite ones" % (self.first_loss, self.last_loss)
            )
        for name, count in self.bad_gradients.most_common(5):
            lines.append("  not finite     %d times: the gradient of %s" % (count, name))
        return "\n".join(lines + ["=> " + self.conclusion()])

    def conclusion(self):
        """One paragraph: what is wrong, and what to do."""
        if not self.stuck:
            return "not stuck: no step was skipped with the scale at its floor."
        if not self.stuck_in_a_row:
            return (
                "not stuck: %d steps were skipped with the scale at its floor, and the training went on after them. If "
                "such bursts are common, look at regrow_steps." % self.stuck
            )
        if self.last_loss is None and not self.stuck_without_loss:
            return (
                "the gradients are inf or NaN, and no loss has passed through scale_loss() or get_scaled_loss(): a "
                "custom training loop has to call it."
            )
        if self.stuck_without_loss * 2 > self.stuck:
            return (
                "the forward pass. The loss is inf or NaN before it is scaled, and no loss scale can help. Let the "
                "layers that overflow compute in float32 (dtype='float32': the output layer, softmax, norms, exp, sums "
                "over many elements), compute the loss in float32, and look for bad records in the data. If it began "
                "with good steps, the weights may have diverged: lower the learning rate, or clip the gradients."
            )
        if self.last_loss is not None and self.last_loss > _GROWTH_OF_A_DIVERGING_LOSS * max(
            self.first_loss, sys.float_info.min
        ):
            return (
                "the training diverges: the loss has grown from %.3g to %.3g. Lower the learning rate, warm it up, or "
                "clip the gradients." % (self.first_loss, self.last_loss)
            )
        return (
            "the backward pass. The loss is finite, and still a gradient is inf or NaN at the lowest scale. Look for "
            "an operation whose derivative is infinite (sqrt or a norm at 0, log, division) and let it run in float32; "
            "or for gradients that are accumulated over steps and never cleared. If they are merely large, lower "
            "min_scale."
        )


def start():
    """Begins a diagnosis, and returns it. Steps that were traced before are not seen."""
    global _current
    _current = Diagnosis()
    return _current


def see_loss(loss, optimizer=None):
    """Notes a loss on its way to be scaled; returns it.

    Args:
        loss: A tensor.
        optimizer: The one whose loss it is; None if that is not known.
    """
    diagnosis = _current
    if diagnosis is None:
        return loss
    owner = _owners.find_in(optimizer)
    backend, lib = _backend_of(loss)
    note = functools.partial(diagnosis.note_loss, owner)
    if backend == "tensorflow":
        largest = lib.reduce_max(lib.abs(lib.cast(loss, "float32")))
        with lib.control_dependencies(_call_from_tensorflow(diagnosis, note, [largest])):
            return lib.identity(loss)
    _call(backend, note, [lib.max(lib.abs(lib.cast(loss, "float32")))])
    return loss


def is_running():
    """Whether somebody looks."""
    return _current is not None


def see_gradients(owner, scale, gradients, variables=None):
    """Notes the unscaled gradients of a step; returns TensorFlow operations that must run with it."""
    diagnosis = _current
    if diagnosis is None:
        return []
    found = [(index, gradient) for index, gradient in enumerate(gradients) if gradient is not None]
    if not found:
        return []
    names = [_name_of(variables[index] if variables else None, index) for index, _ in found]
    floor = _rules.of(owner).min_scale
    backend, lib = _backend_of(found[0][1])
    note = functools.partial(diagnosis.note_gradients, owner, floor, names)
    if backend == "tensorflow":
        is_bad = lib.stack([_is_bad_on_tensorflow(lib, gradient) for _, gradient in found])
        return _call_from_tensorflow(diagnosis, note, [lib.cast(scale, "float32"), is_bad])
    is_bad = lib.stack([lib.logical_not(lib.all(lib.isfinite(gradient))) for _, gradient in found])
    _call(backend, note, [scale, is_bad])
    return []


def _name_of(variable, index):
    """Keras 3 has paths; a ``tf.Variable`` that is trained by its optimizer has a name."""
    return getattr(variable, "path", None) or getattr(variable, "name", None) or "variable number %d" % index


def _is_bad_on_tensorflow(tf, gradient):
    """Whether a gradient is not finite, on any replica."""
    if tf.distribute.has_strategy():
        gradients = tf.distribute.get_strategy().experimental_local_results(gradient)
    else:
        gradients = [gradient]
    values = [getattr(each, "values", each) for each in gradients]
    return tf.logical_not(tf.reduce_all([tf.reduce_all(tf.math.is_finite(value)) for value in values]))


def _call_from_tensorflow(diagnosis, function, tensors):
    import tensorflow as tf

    if _xla.is_compiling():
        diagnosis.is_compiled = True
        return []

    def call(*arrays):
        function(*arrays)
        return _no_value()

    return [tf.numpy_function(call, tensors, tf.float32)]


def _no_value():
    import numpy

    return numpy.float32(0)


def _call(backend, function, tensors):
    if backend == "jax":
        sys.modules["jax"].debug.callback(function, *tensors)
    else:
        to_numpy = sys.modules["keras"].ops.convert_to_numpy
        function(*map(to_numpy, tensors))


def _backend_of(tensor):
    """Returns the name of the backend, and the library that computes with such tensors."""
    home = type(tensor).__module__.split(".")[0]
    if home in ("jax", "jaxlib", "torch"):
        return home.replace("jaxlib", "jax"), importlib.import_module("keras.src.ops")
    return "tensorflow", importlib.import_module("tensorflow")
