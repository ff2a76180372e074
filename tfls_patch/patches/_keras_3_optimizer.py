"""Keras 3's ``LossScaleOptimizer`` on every backend: bounds, and a verdict on what will really be applied.

Stock has no bounds, checks the scaled gradients and divides afterwards, and asks the first replica of each worker
only. Here the division comes first; the quotients are what is checked, on every replica, and applied::

    quotients = gradients / scale                       # in the type in which they are used
    if all quotients are finite on every replica:       inner_optimizer.apply(quotients); count, or grow
    else:                                               scale = after_overflow(scale); counter = 0

so a gradient of 0 under a scale of 0, and a float16 quotient that overflows, skip the step and reach no weight.
The division is moved, not added: a finite step passes no more operations than in stock.
"""

import functools
import importlib

from tfls_patch import _diagnosis, _float16, _rules, _skips, _traces, scaling
from tfls_patch._autograph import unconverted
from tfls_patch.patches._declare import Target

#: Keras 3 has no multiplier to set: it doubles and halves.
_MULTIPLIER = 2.0


def _ops():
    return importlib.import_module("keras.src.ops")


def _backend():
    """What `keras.ops` calls, without the wrappers, which take longer than the small operations here."""
    backend = importlib.import_module("keras.src.backend")
    return getattr(backend, "ops", backend)  # there from Keras 3.16 on


def _cond(predicate, if_true, if_false):
    """`keras.ops.cond` without its wrapper, which would also replace an error of a branch by one of its own."""
    return _backend().core.cond(predicate, if_true, if_false)


def _quotients(optimizer, gradients, variables, scale):
    """Divides each gradient by the scale; None and gradients that overwrite their variable (float8) pass.

    Args:
        optimizer: The ``LossScaleOptimizer``.
        gradients: The scaled gradients.
        variables: Their variables, or None if those that the optimizer was built with are meant.
        scale: The scale.
    """
    ops = _ops()
    # Before Keras 3.12 only the inner optimizer knows them.
    variables = list(variables or optimizer.inner_optimizer._trainable_variables)
    variables += [None] * (len(gradients) - len(variables))  # wrong, which stock says; but no gradient goes unseen
    is_overwritten = getattr(optimizer, "_overwrite_variable_with_gradient", lambda variable: False)

    def quotient(gradient, variable):
        if gradient is None or (variable is not None and is_overwritten(variable)):
            return gradient
        # A plain division promotes float16 to float32, and the inner optimizer casts it back: what does not fit then is
        # to be seen before. But clipping comes between the two, needs the wider range, and makes it fit.
        if _float16.is_float16(gradient) and not _clips(optimizer.inner_optimizer):
            return _float16.quotient(ops, gradient, ops.convert_to_tensor(scale))
        return _backend().numpy.divide(gradient, scale)

    quotients = [quotient(gradient, variable) for gradient, variable in zip(gradients, variables)]
    _diagnosis.see_gradients(optimizer, scale, quotients, variables)
    return quotients


def _clips(inner_optimizer):
    return any(getattr(inner_optimizer, name, None) for name in ("clipnorm", "clipvalue", "global_clipnorm"))


def _check_finite(optimizer, quotients):
    """The optimizer's own verdict, on the values of a sparse gradient.

    Stock scatters the verdicts on the values to their rows first, and a row that was looked up twice keeps only one.
    """
    return optimizer.check_finite([each.values if hasattr(each, "dense_shape") else each for each in quotients])


# --- The scaling methods -------------------------------------------------------------------------------------------


def _replace_scale_loss(original, module):
    @functools.wraps(original)
    def scale_loss(self, loss):
        return original(self, _float16.widened(_ops(), _diagnosis.see_loss(loss, self)))

    return scale_loss


def _replace_common_apply(original, module):
    @functools.wraps(original)
    def _common_apply(self, grads, trainable_variables=None):
        quotients = _quotients(self, grads, trainable_variables, self.dynamic_scale)
        _cond(
            _check_finite(self, quotients),
            lambda: self._stateful_handle_finite_grads(quotients, trainable_variables),
            self._stateful_handle_non_finite_grads,
        )

    return _common_apply


def _replace_tf_apply(original, module):
    @functools.wraps(original)
    def _tf_apply(self, grads, trainable_variables=None):
        import tensorflow as tf

        if tf.distribute.in_cross_replica_context():
            return original(self, grads, trainable_variables)  # which says that this is the wrong context
        if tf.__internal__.distribute.strategy_supports_no_merge_call():
            return self._common_apply(grads, trainable_variables=trainable_variables)
        quotients = _quotients(self, grads, trainable_variables, self.dynamic_scale)
        apply = unconverted(functools.partial(_apply_across_replicas, self))
        tf.distribute.get_replica_context().merge_call(apply, args=(quotients, trainable_variables))

    return _tf_apply


def _apply_across_replicas(optimizer, strategy, quotients, trainable_variables):
    """Takes or skips the step on all replicas alike. The `cond` must be outside of them: the inner apply merges too."""
    import tensorflow as tf

    # The gradients are not reduced yet: any replica can be the one that overflowed, also one of another worker. Workers
    # that disagreed would wait for each other for ever, since taking the step is a collective operation.
    # No gradient is float64, so TensorFlow refuses to add a vote and the gradient of a worker that is not patched.
    vote = unconverted(lambda own: tf.cast(_check_finite(optimizer, own), tf.float64))
    votes = strategy.extended.call_for_each_replica(vote, args=(quotients,))
    votes_in_favor = strategy.reduce(tf.distribute.ReduceOp.SUM, votes, axis=None)

    def take_step():
        strategy.extended.call_for_each_replica(
            optimizer._stateful_handle_finite_grads, args=(quotients, trainable_variables)
        )

    unanimous = tf.equal(votes_in_favor, strategy.num_replicas_in_sync)
    _cond(unanimous, take_step, optimizer._stateful_handle_non_finite_grads)


def _replace_stateless_apply(original, module):
    @functools.wraps(original)
    def stateless_apply(self, optimizer_variables, grads, trainable_variables):
        if not self.built:
            return original(self, optimizer_variables, grads, trainable_variables)  # which says what is missing
        values = [_ops().convert_to_tensor(value) for value in optimizer_variables]
        scale = values[_position(self, self.dynamic_scale)]
        quotients = _quotients(self, grads, None, scale)
        return _cond(
            _check_finite(self, quotients),
            lambda: self._stateless_handle_finite_grads(values, quotients, trainable_variables),
            lambda: self._stateless_handle_non_finite_grads(values, trainable_variables),
        )

    return stateless_apply


# --- What becomes of the scale; these take quotients where stock's take scaled gradients -----------------------------


def _replace_stateful_finite(original, module):
    @functools.wraps(original)
    def _stateful_handle_finite_grads(self, grads, trainable_variables):
        self.inner_optimizer.apply(grads, trainable_variables=trainable_variables)
        rule = _traces.for_update(self, _first(grads))

        def grow():
            self.dynamic_scale.assign(scaling.after_growth(_ops(), self.dynamic_scale, _MULTIPLIER, rule))
            self.step_counter.assign(0)

        def count():
            self.step_counter.assign_add(1)

        lib = _backend().numpy
        due = scaling.growth_is_due(lib, self.step_counter, self.dynamic_growth_steps, self.dynamic_scale, rule)
        _cond(due, grow, count)

    return _stateful_handle_finite_grads


def _replace_stateful_non_finite(original, module):
    @functools.wraps(original)
    def _stateful_handle_non_finite_grads(self):
        scale = _ops().convert_to_tensor(self.dynamic_scale)
        new_scale, recorded = _after_overflow(self, scale, self.step_counter)
        self.dynamic_scale.assign(new_scale)
        self.step_counter.assign(0)
        recorded.follow_policy()

    return _stateful_handle_non_finite_grads


def _replace_stateless_finite(original, module):
    @functools.wraps(original)
    def _stateless_handle_finite_grads(self, optimizer_variables, grads, trainable_variables):
        rule = _traces.for_update(self, _first(grads))
        scale = optimizer_variables[_position(self, self.dynamic_scale)]
        good = optimizer_variables[_position(self, self.step_counter)]
        new_scale, new_good = _cond(
            scaling.growth_is_due(_backend().numpy, good, self.dynamic_growth_steps, scale, rule),
            lambda: (scaling.after_growth(_ops(), scale, _MULTIPLIER, rule), _ops().zeros_like(good)),
            lambda: (scale, good + 1),
        )
        optimizer_variables = _with_state(self, optimizer_variables, new_scale, new_good)
        own = len(self._variables)
        new_variables, new_inner = self.inner_optimizer.stateless_apply(
            optimizer_variables[own:], grads, trainable_variables
        )
        return new_variables, optimizer_variables[:own] + list(new_inner)

    return _stateless_handle_finite_grads


def _replace_stateless_non_finite(original, module):
    @functools.wraps(original)
    def _stateless_handle_non_finite_grads(self, optimizer_variables, trainable_variables):
        scale = optimizer_variables[_position(self, self.dynamic_scale)]
        good = optimizer_variables[_position(self, self.step_counter)]
        new_scale, recorded = _after_overflow(self, scale, good)
        recorded.follow_policy()
        return trainable_variables, _with_state(self, optimizer_variables, new_scale, _ops().zeros_like(good))

    return _stateless_handle_non_finite_grads


def _after_overflow(optimizer, scale, good):
    """The scale after a skipped step, and what is left to do about that."""
    rule = _rules.of(optimizer)
    new_scale = scaling.after_overflow(_ops(), scale, _MULTIPLIER, rule)
    return new_scale, _skips.record(optimizer, scale, good, new_scale, rule)


def _position(optimizer, variable):
    """Where the value of one of the optimizer's own variables stands in `optimizer_variables`."""
    return [candidate is variable for candidate in optimizer.variables].index(True)


def _with_state(optimizer, values, scale, good):
    values = list(values)
    values[_position(optimizer, optimizer.dynamic_scale)] = scale
    values[_position(optimizer, optimizer.step_counter)] = good
    return values


def _first(gradients):
    """Any gradient that is there: tells whether the step is being traced."""
    return next((gradient for gradient in gradients if gradient is not None), None)


def _method(name, parameters, uses, replace):
    return Target("LossScaleOptimizer." + name, ("self",) + parameters, uses, replace)


KERAS_3_OPTIMIZER = [
    _method("scale_loss", ("loss",), ("dynamic_scale", "initial_scale", "built"), _replace_scale_loss),
    _method(
        "_common_apply",
        ("grads", "trainable_variables"),
        ("check_finite", "_stateful_handle_finite_grads", "_stateful_handle_non_finite_grads"),
        _replace_common_apply,
    ),
    _method(
        "_tf_apply",
        ("grads", "trainable_variables"),
        ("check_finite", "_common_apply", "_stateful_handle_finite_grads", "_stateful_handle_non_finite_grads"),
        _replace_tf_apply,
    ),
    _method(
        "stateless_apply",
        ("optimizer_variables", "grads", "trainable_variables"),
        ("check_finite", "_stateless_handle_finite_grads", "_stateless_handle_non_finite_grads"),
        _replace_stateless_apply,
    ),
    _method(
        "_stateful_handle_finite_grads",
        ("grads", "trainable_variables"),
        ("inner_optimizer", "dynamic_scale", "step_counter", "dynamic_growth_steps"),
        _replace_stateful_finite,
    ),
    _method("_stateful_handle_non_finite_grads", (), ("dynamic_scale", "step_counter"), _replace_stateful_non_finite),
    _method(
        "_stateless_handle_finite_grads",
        ("optimizer_variables", "grads", "trainable_variables"),
        ("inner_optimizer", "_variables", "dynamic_scale", "step_counter", "dynamic_growth_steps"),
        _replace_stateless_finite,
    ),
    _method(
        "_stateless_handle_non_finite_grads",
        ("optimizer_variables", "trainable_variables"),
        ("dynamic_scale", "step_counter"),
        _replace_stateless_non_finite,
    ),
]
