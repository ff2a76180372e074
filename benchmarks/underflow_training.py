"""Trains one model of ``underflow_situations.py`` under one rule for the loss scale, and counts what happened.

The rules that are tried stand here, not in the package. They are put around the patched ``update`` of the optimizer's
loss scale, which goes on doing what it does; what they add happens after it.
"""

import collections

import numpy as np
import tensorflow as tf
import tf_keras as keras

import tfls_patch

#: TensorFlow's own defaults.
INITIAL_SCALE = 2.0**15
GROWTH_INTERVAL = 2000

#: The growth interval below 1 of the arms that have one of their own.
REGROW_STEPS = 50

#: An overflow in so many steps after a growth by the rule counts as caused by it.
CAUSED_WITHIN = 10

Arm = collections.namedtuple(
    "Arm", "name float16 zero_rule looks_at_loss regrow floor", defaults=[False, False, False, None]
)
Arm.__doc__ = """One way to train.

Attributes:
    name: As the tables show it.
    float16: Whether there is a loss scale at all.
    zero_rule: Whether the scale grows at once when all gradients of a finite step are 0 and the scale is below 1.
    looks_at_loss: Whether the rule, besides, wants the loss not to be 0.
    regrow: Whether the growth interval is `REGROW_STEPS` while the scale is below 1.
    floor: ``min_scale`` in place of that of the situation, or None.
"""

ARMS = [
    Arm("float32", False),
    Arm("floor 1", True, floor=1.0),
    Arm("wait", True),
    Arm("zero rule", True, zero_rule=True),
    Arm("zero rule, loss not 0", True, zero_rule=True, looks_at_loss=True),
    Arm("regrow 50", True, regrow=True),
    Arm("regrow 50 + zero rule", True, zero_rule=True, regrow=True),
    Arm("regrow 50 + zero rule, loss not 0", True, zero_rule=True, looks_at_loss=True, regrow=True),
]

Outcome = collections.namedtuple(
    "Outcome",
    "train_loss validation_loss useful skipped all_zero zero_growths caused zero_share lowest_scale final_scale",
)
Outcome.__doc__ = """What came out of one run.

Attributes:
    train_loss: Of all training examples at the end, not multiplied by anything, nothing masked.
    validation_loss: Likewise.
    useful: How many steps were taken with a gradient that is not 0 somewhere.
    skipped: How many steps were skipped; those of NaN batches do not count.
    all_zero: How many steps were taken with gradients that are all exactly 0.
    zero_growths: How often the rule made the scale grow.
    caused: How many of the skipped steps came within `CAUSED_WITHIN` steps after such a growth.
    zero_share: Which share of the entries of the gradients was exactly 0, over the useful steps.
    lowest_scale: The lowest scale of the run.
    final_scale: The last one.
"""

_Step = collections.namedtuple("_Step", "scale finite zeros zero_growths")


class Trainer:
    """A model with its optimizer and one compiled loop, which is used for every seed."""

    def __init__(self, situation, arm):
        self._situation, self._arm = situation, arm
        keras.backend.clear_session()
        keras.mixed_precision.set_global_policy(situation.policy if arm.float16 else "float32")
        self._model = situation.model()
        self._optimizer = situation.optimizer()
        self._optimizer.build(self._model.trainable_variables)
        self._state = self._optimizer.variables
        self._fresh = [variable.numpy() for variable in self._state]
        self._zero_growths = tf.Variable(0.0, trainable=False)
        self._loss = tf.Variable(0.0, trainable=False)
        self._scale = self._with_loss_scale() if arm.float16 else None
        self._train = tf.function(self._loop)
        self._flat_gradients = tf.function(lambda *batch: _flat(self._gradients(*batch)[1]))

    def run(self, plan, weights):
        """Trains from these initial weights on and returns an `Outcome`."""
        self._reset(weights)
        log = self._train(*map(tf.constant, [*plan.train, plan.rows, plan.weights])).numpy()
        final_scale = float(self._scale.current_loss_scale) if self._scale else float("nan")
        return _outcome(_Step(*log.T), plan.bad, self._error(plan.train), self._error(plan.validation), final_scale)

    def gradients_of_first_batch(self, plan, weights, scale=None):
        """Returns all entries of the gradients at these weights, under this scale, as one array. Trains nothing."""
        self._reset(weights)
        if self._scale:
            self._scale.current_loss_scale.assign(scale)
        x, y = plan.train.x[plan.rows[0]], plan.train.y[plan.rows[0]]
        return self._flat_gradients(*map(tf.constant, [x, y, plan.weights[0]])).numpy()

    def _with_loss_scale(self):
        self._optimizer = keras.mixed_precision.LossScaleOptimizer(
            self._optimizer, initial_scale=INITIAL_SCALE, dynamic_growth_steps=GROWTH_INTERVAL
        )
        tfls_patch.set_bounds(self._optimizer, min_scale=self._arm.floor or self._situation.floor)
        scale = self._optimizer._loss_scale  # there is no public way to the object that has `update`
        scale.update = _with_rules(scale, self._arm, self._loss, self._zero_growths)
        return scale

    def _reset(self, weights):
        self._model.set_weights(weights)
        for variable, value in zip(self._state, self._fresh):
            variable.assign(value)
        self._zero_growths.assign(0.0)
        if self._scale:
            self._scale.current_loss_scale.assign(INITIAL_SCALE)
            self._scale.counter.assign(0)

    def _loop(self, x, y, rows, weights):
        steps = tf.shape(rows)[0]
        log = tf.TensorArray(tf.float32, size=steps)
        for step in tf.range(steps):
            log = log.write(
                step, tf.stack(self._step(tf.gather(x, rows[step]), tf.gather(y, rows[step]), weights[step]))
            )
        return log.stack()

    def _step(self, x, y, weights):
        """Takes one step and returns a `_Step` of float32 scalars."""
        scale = tf.identity(self._scale.current_loss_scale) if self._scale else tf.constant(1.0)
        loss, gradients = self._gradients(x, y, weights)
        self._loss.assign(loss)
        flat = _flat(gradients)
        finite = tf.reduce_all(tf.math.is_finite(flat))
        if self._scale or finite:  # without a loss scale nothing else would protect float32 from the burst
            self._optimizer.apply_gradients(zip(gradients, self._model.trainable_variables))
        zeros = tf.reduce_mean(tf.cast(tf.equal(flat, 0), tf.float32))
        return _Step(scale, tf.cast(finite, tf.float32), zeros, tf.identity(self._zero_growths))

    def _gradients(self, x, y, weights):
        """Returns the loss, in float32, and its gradients; with a loss scale they went through it, there and back."""
        with tf.GradientTape() as tape:
            losses = self._situation.loss(y, self._model(x, training=True))
            weights = tf.cast(weights, losses.dtype)
            mean = tf.reduce_sum(losses * weights) / tf.maximum(tf.reduce_sum(weights), 1)
            loss = mean * self._situation.factor + tf.cast(sum(self._model.losses), mean.dtype)
            scaled = self._optimizer.get_scaled_loss(loss) if self._scale else loss
        gradients = [tf.convert_to_tensor(each) for each in tape.gradient(scaled, self._model.trainable_variables)]
        if self._scale:
            gradients = self._optimizer.get_unscaled_gradients(gradients)
        return tf.cast(loss, tf.float32), gradients

    def _error(self, examples):
        losses = self._situation.loss(tf.constant(examples.y), self._model(examples.x))
        return float(tf.reduce_mean(tf.cast(losses, tf.float32)))


def _flat(gradients):
    return tf.concat([tf.reshape(tf.cast(gradient, tf.float32), [-1]) for gradient in gradients], axis=0)


def _with_rules(scale, arm, loss, zero_growths):
    """Returns the patched ``update`` of a loss scale with the rules of `arm` around it.

    What the patched ``update`` itself did to the scale in such a step is undone, so that it does not grow twice. A
    growth by these rules does not pass 1, from where on the loss scale is that of stock.
    """
    patched = scale.update

    def update(gradients):
        before = tf.identity(scale.current_loss_scale)
        operation, finite = patched(gradients)
        is_low = finite & (before < 1)
        underflow = is_low & _all_zero(gradients) & (tf.not_equal(loss, 0) | (not arm.looks_at_loss)) & arm.zero_rule
        grows = underflow | (is_low & (scale.counter >= REGROW_STEPS) & arm.regrow)
        grown = tf.minimum(before * scale.multiplier, 1.0)
        scale.current_loss_scale.assign(tf.where(grows, grown, scale.current_loss_scale))
        scale.counter.assign(tf.where(grows, tf.zeros_like(scale.counter), scale.counter))
        zero_growths.assign_add(tf.cast(underflow, tf.float32))
        return operation, finite

    return update


def _all_zero(gradients):
    return tf.reduce_all(tf.equal(_flat(gradients), 0))


def _outcome(steps, bad, train_loss, validation_loss, final_scale):
    taken = steps.finite == 1
    all_zero = taken & (steps.zeros == 1)
    useful = taken & ~all_zero
    skipped = ~taken & ~bad
    growths = np.diff(steps.zero_growths, prepend=0) > 0
    grew_lately = [growths[max(0, step - CAUSED_WITHIN) : step].any() for step in range(len(growths))]
    return Outcome(
        train_loss=train_loss,
        validation_loss=validation_loss,
        useful=int(useful.sum()),
        skipped=int(skipped.sum()),
        all_zero=int(all_zero.sum()),
        zero_growths=int(growths.sum()),
        caused=int((skipped & grew_lately).sum()),
        zero_share=float(steps.zeros[useful].mean()) if useful.any() else float("nan"),
        lowest_scale=float(np.minimum(steps.scale.min(), final_scale)),  # NaN without a loss scale
        final_scale=final_scale,
    )
