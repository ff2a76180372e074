"""The contract in NumPy's float32, the one reference of the scenarios. It knows neither TensorFlow nor tfls_patch."""

import collections

import numpy as np

RATE = 2.0**-10  # of the gradient descent; a power of two, so that weights are exact and equality means equality

#: The largest bounds that there are; what stock Keras 3, which has none, is taken to have.
SMALLEST, LARGEST = 2.0**-126, 2.0**126

Setup = collections.namedtuple("Setup", ["min_scale", "max_scale", "regrow_steps", "growth_interval", "multiplier"])
Setup.__doc__ = """What is built into a traced step: bounds, ``regrow_steps`` (0: none), interval, multiplier."""

Script = collections.namedtuple("Script", ["initial", "events"])
Script.__doc__ = """What a training goes through: it begins with the scale `initial`; then events, each one of

    ("step", m, n)              a step in which one weight has the gradient m, another n
    ("restore", scale, good)    this scale and this counter are put in place, as a checkpoint would
"""


class LossScale(object):
    """The dynamic loss scale: halve (or so) on overflow, double (or so) after an interval of good steps."""

    def __init__(self, setup):
        self.setup = setup
        self.low, self.high = np.float32(setup.min_scale), np.float32(setup.max_scale)
        self.multiplier = np.float32(setup.multiplier)
        self.restore(1.0, 0)

    def restore(self, scale, good):
        self.scale, self.good = np.float32(scale), good

    def update(self, is_finite):
        """What becomes of the scale in one step."""
        if not is_finite:
            self.change_to(self.scale / self.multiplier)
        elif self.good + 1 >= self.interval():
            self.change_to(self.scale * self.multiplier)
        else:
            self.good += 1

    def interval(self):
        setup = self.setup
        is_quick = setup.regrow_steps and self.scale < 1
        return min(setup.growth_interval, setup.regrow_steps) if is_quick else setup.growth_interval

    def change_to(self, candidate):
        inside = min(candidate, self.high) if candidate >= self.low else self.low  # NaN is not inside
        self.scale, self.good = np.float32(inside), 0


class ContribLossScale(LossScale):
    """That of ``tf.contrib`` by its defaults: times 0.8 at every second bad step since the last change."""

    decr_ratio, decr_every = np.float32(0.8), 2

    def restore(self, scale, good):
        LossScale.restore(self, scale, good)
        self.bad = getattr(self, "bad", 0)

    def update(self, is_finite):
        if is_finite:
            return LossScale.update(self, True)
        self.bad, self.good = self.bad + 1, 0
        if self.bad >= self.decr_every:
            self.change_to(self.scale * self.decr_ratio)

    def change_to(self, candidate):
        LossScale.change_to(self, candidate)
        self.bad = 0


class Training(object):
    """Gradient descent under a loss scale.

    Args:
        loss_scale: A `LossScale`.
        weights: How each weight starts.
        divides: Whether gradients are divided by the scale, or multiplied by its reciprocal.
        is_half: Whether the scaled gradients pass through float16.
        counts_skipped: Whether a skipped step counts as an iteration.
    """

    def __init__(self, loss_scale, weights, divides=False, is_half=False, counts_skipped=False):
        self.loss_scale, self.weights = loss_scale, [np.float32(weight) for weight in weights]
        self.divides, self.is_half, self.counts_skipped = divides, is_half, counts_skipped
        self.iterations = 0

    def step(self, multipliers):
        """One step, in which the first weights have these gradients and the rest none."""
        gradients = [self.gradient(m) for m in multipliers]
        is_finite = bool(np.all(np.isfinite(gradients)))
        if is_finite:
            for i, gradient in enumerate(gradients):
                self.weights[i] = self.weights[i] - np.float32(RATE) * gradient
        self.iterations += 1 if is_finite or self.counts_skipped else 0
        self.loss_scale.update(is_finite)
        return is_finite

    def gradient(self, multiplier):
        """The gradient of a weight, scaled and unscaled."""
        scale = self.loss_scale.scale
        if self.is_half:
            scaled = np.float32(np.float16(scale) * np.float16(multiplier))
        else:
            scaled = np.float32(multiplier) * scale
        return scaled / scale if self.divides else scaled * (np.float32(1) / scale)

    def state(self):
        """Returns ``(scale, good steps, weights, iterations)`` as Python numbers."""
        weights = tuple(float(weight) for weight in self.weights)
        return float(self.loss_scale.scale), self.loss_scale.good, weights, self.iterations


class TapeTraining(Training):
    """The same where a tape retries at once, with a lower scale, down to the floor."""

    def step(self, multipliers):
        while True:
            good = self.loss_scale.good
            if Training.step(self, multipliers) or self.loss_scale.scale <= self.loss_scale.low:
                return good


def play(script, training):
    """Returns the states after each step of a `Script`."""
    states = []
    training.loss_scale.restore(script.initial, 0)
    with np.errstate(all="ignore"):
        for event in script.events:
            if event[0] == "restore":
                training.loss_scale.restore(*event[1:])
            else:
                training.step(event[1:])
                states.append(training.state())
    return states
