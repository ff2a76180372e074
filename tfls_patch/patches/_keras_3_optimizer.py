"""Keras 3's ``LossScaleOptimizer`` on every backend: bounds, and a verdict on what will really be applied.

Stock has no bounds, asks whether the *scaled* gradients are finite, divides them where they are applied, and asks the
first replica of each worker only. Every method here takes and passes scaled gradients as stock's does, so that a
subclass may override any of them. What is added is that the quotients must be finite too, on every replica::

    if check_finite(gradients) and all finite(gradients / scale), on every replica:
          inner_optimizer.apply(gradients / scale); count, or grow
    else: scale = after_overflow(scale); counter = 0

so a gradient of 0 under a scale of 0, and a float16 quotient that overflows, skip the step and reach no weight. What
that takes:

- outside of a graph nothing while the scale is at least 1: a finite gradient has a finite quotient then, and the scale
  is known there. Below 1 the quotients are checked too. (`_may_overflow` names the exceptions, all in float16.)
- in a graph no more operations in float32 than stock: the quotients are made first and are what is
  checked: where they are finite, so are the gradients. They go along with the scaled gradients to the method that
  applies them (`_Divided`), unless a subclass overrides it.
"""

import functools
import importlib

from tfls_patch import _diagnosis, _float16, _rules, _skips, _traces, scaling
from tfls_patch._autograph import unconverted
from tfls_patch.patches._declare import Target

#: Keras 3 has no multiplier to set: it doubles and halves.
_MULTIPLIER = 2.0

#: Squares of numbers below the greatest float32 over this can be added up for 2**40 elements.
_NORM_MARGIN = 2.0**84


class _Divided(list):
    """Scaled gradients, which remember their quotients."""

    def __init__(self, gradients, quotients):
        super(_Divided, self).__init__(gradients)
        self.quotients = quotients


def _ops():
    return importlib.import_module("keras.src.ops")


def _backend():
    """What `keras.ops` calls, without the wrappers, which take longer than the small operations here."""
    backend = importlib.import_module("keras.src.backend")
    return getattr(backend, "ops", backend)  # there from Keras 3.16 on


def _cond(predicate, if_true, if_false):
    """`keras.ops.cond` without its wrapper, which would also replace an error of a branch by one of its own."""
    return _backend().core.cond(predicate, if_true, if_false)


def _is_own(method):
    """Whether a bound method is one of this module: not a subclass's, nor another library's around it."""
    return getattr(getattr(method, "__func__", None), "__globals__", None) is globals()


# --- The verdict, and the quotients ----------------------------------------------------------------------------------


def _judge(optimizer, gradients, variables, scale):
    """Decides whether a step is taken.

    Args:
        optimizer: The ``LossScaleOptimizer``.
        gradients: The scaled gradients.
        variables: Their variables, or None if those that the optimizer was built with are meant.
        scale: The scale, a variable or tensor.

    Returns:
        The verdict, a scalar bool tensor; and the quotients if it took them, else None.
    """
    scale = _ops().convert_to_tensor(scale)
    is_traced = _is_traced([scale] + list(gradients))
    variables = _variables(optimizer, gradients, variables)
    # If somebody overrides it, what it says of the scaled gradients counts.
    own = None if is_traced and _is_own(optimizer.check_finite) else optimizer.check_finite(gradients)
    if not is_traced and not _diagnosis.is_running():
        if not bool(own) or (_number(scale) >= 1.0 and not _may_overflow(optimizer, gradients, variables)):
            return own, None
    quotients = _quotients(optimizer, gradients, variables, scale)
    _diagnosis.see_gradients(optimizer, scale, quotients, variables)
    fit = _fit(optimizer, gradients, quotients, variables)
    return (fit if own is None else _backend().numpy.logical_and(own, fit)), quotients


def _is_traced(values):
    """Whether values will be known only when what is being traced runs."""
    if importlib.import_module("keras.src.backend").backend() == "tensorflow":
        import tensorflow as tf

        return not tf.executing_eagerly()
    return any(map(_traces.is_of_jax_trace, values))


def _number(scale):
    """The scale outside of a trace. By way of an operation, which reads the right one of a variable with replicas."""
    return float(_backend().numpy.multiply(scale, 1.0))


def _variables(optimizer, gradients, variables):
    """The variable of each gradient, or None."""
    # Before Keras 3.12 only the inner optimizer knows them.
    variables = list(variables or optimizer.inner_optimizer._trainable_variables)
    return variables + [None] * (len(gradients) - len(variables))  # too few, which stock says; no gradient goes unseen


def _quotients(optimizer, gradients, variables, scale):
    """Divides each gradient by the scale; None and gradients that overwrite their variable (float8) pass."""
    is_overwritten = getattr(optimizer, "_overwrite_variable_with_gradient", lambda variable: False)
    divide = _backend().numpy.divide
    # A plain division promotes float16 to float32, and the inner optimizer casts it back: what does not fit then is to
    # be seen before. But clipping comes between the two, needs the wider range, and makes it fit.
    is_plain = _clips(optimizer) or not any(map(_float16.is_float16, gradients))
    divide_float16 = divide if is_plain else _float16_division(optimizer, scale)

    def quotient(gradient, variable):
        if gradient is None or (variable is not None and is_overwritten(variable)):
            return gradient
        return (divide_float16 if _float16.is_float16(gradient) else divide)(gradient, scale)

    return [quotient(gradient, variable) for gradient, variable in zip(gradients, variables)]


def _float16_division(optimizer, scale):
    """A function of a float16 gradient and the scale."""
    ops = _ops()
    if _is_power_of_two(optimizer, scale):
        divide = _backend().numpy.divide
        return lambda gradient, scale: _float16.narrowed(ops, divide(gradient, scale))
    return functools.partial(_float16.quotient, ops)


def _is_power_of_two(optimizer, scale):
    """Whether the scale is one; in a trace, whether all are that the rule can lead to."""
    if not _is_traced([scale]):
        return scaling.is_power_of_two(_number(scale))
    return scaling.keeps_to_powers_of_two(optimizer.initial_scale, _rules.of(optimizer))


def _fit(optimizer, gradients, quotients, variables):
    """Whether every quotient is finite in the type in which it is used.

    If somebody else has decided that gradients which are not finite are to be applied, that is not undone: then only
    those count that the division has made infinite.
    """
    used = _as_used(optimizer.inner_optimizer, gradients, quotients, variables)
    if _is_own(optimizer.check_finite):
        return optimizer.check_finite(used)
    lib = _backend().numpy
    pairs = [(_values(one), other) for one, other in zip(gradients, used) if one is not None]
    fits = [lib.all(lib.logical_or(lib.isfinite(other), lib.logical_not(lib.isfinite(one)))) for one, other in pairs]
    return lib.all(_ops().convert_to_tensor(fits))


def _as_used(inner, gradients, quotients, variables):
    """Quotients for float16 variables as numbers that are infinite if they become so on their way into the weight.

    On that way are, as options of the inner optimizer, a sum over several steps in float16, and a clipping, which adds
    up squares in float32 for a norm, and lets pass what is within its bound.
    """
    steps, bounds = _accumulation_steps(inner), _clip_bounds(inner)
    margin = _NORM_MARGIN if any(bounds[1:]) else 1.0
    is_clipped_to_fit = 0.0 < max(bounds) <= _float16.MAX and steps == 1

    def as_used(gradient, quotient, variable):
        values = _values(quotient)
        if quotient is None or not _ends_in_float16(gradient, variable):
            return values
        return _times(values, margin) if is_clipped_to_fit else _ops().cast(_times(values, steps), "float16")

    return list(map(as_used, gradients, quotients, variables))


def _may_overflow(optimizer, gradients, variables):
    """Whether a finite quotient can become infinite under a scale of 1 and more: only in float16, and only in a sum of
    several, or if the gradient is of a wider type."""
    sums_up = _accumulation_steps(optimizer.inner_optimizer) > 1
    return any(
        _ends_in_float16(gradient, variable) and (sums_up or not _float16.is_float16(gradient))
        for gradient, variable in zip(gradients, variables)
        if gradient is not None
    )


def _ends_in_float16(gradient, variable):
    return _float16.is_float16(gradient) or _float16.is_float16(variable)


def _times(values, factor):
    return values if factor == 1 else values * float(factor)


def _values(gradient):
    """What is to be checked of a gradient that may be sparse.

    Stock scatters the verdicts on the values to their rows first, and a row that was looked up twice keeps only one.
    """
    return gradient.values if hasattr(gradient, "dense_shape") else gradient


def _accumulation_steps(inner):
    return getattr(inner, "gradient_accumulation_steps", None) or 1  # there from Keras 3.1 on


def _clip_bounds(inner):
    return [getattr(inner, name, None) or 0.0 for name in ("clipvalue", "clipnorm", "global_clipnorm")]


def _clips(optimizer):
    return any(_clip_bounds(optimizer.inner_optimizer))


def _passed_on(method, gradients, quotients):
    """What a method is given that applies gradients: scaled ones. If it is ours, it need not divide them again."""
    return _Divided(gradients, quotients) if quotients is not None and _is_own(method) else gradients


def _quotients_of(optimizer, gradients, variables, scale):
    if isinstance(gradients, _Divided):
        return gradients.quotients
    variables = _variables(optimizer, gradients, variables)
    return _quotients(optimizer, gradients, variables, _ops().convert_to_tensor(scale))


# --- The scaling methods -------------------------------------------------------------------------------------------


def _replace_scale_loss(original, module):
    @functools.wraps(original)
    def scale_loss(self, loss):
        return original(self, _float16.widened(_ops(), _diagnosis.see_loss(loss, self)))

    return scale_loss


def _replace_check_finite(original, module):
    @functools.wraps(original)
    def check_finite(self, grads):
        return original(self, [_values(gradient) for gradient in grads])

    return check_finite


def _replace_common_apply(original, module):
    @functools.wraps(original)
    def _common_apply(self, grads, trainable_variables=None):
        finite, quotients = _judge(self, grads, trainable_variables, self.dynamic_scale)
        passed_on = _passed_on(self._stateful_handle_finite_grads, grads, quotients)
        _cond(
            finite,
            lambda: self._stateful_handle_finite_grads(passed_on, trainable_variables),
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
        finite, quotients = _judge(self, grads, trainable_variables, self.dynamic_scale)
        if tf.executing_eagerly():
            quotients = None  # some replicas may have taken them and others not, and what is merged must be alike
        # No gradient is float64, so TensorFlow refuses to add a vote and the gradient of a worker that is not patched.
        args = (tf.cast(finite, tf.float64), grads, quotients, trainable_variables)
        apply = unconverted(functools.partial(_apply_across_replicas, self))
        tf.distribute.get_replica_context().merge_call(apply, args=args)

    return _tf_apply


def _apply_across_replicas(optimizer, strategy, votes, gradients, quotients, trainable_variables):
    """Takes or skips the step on all replicas alike. The `cond` must be outside of them: the inner apply merges too."""
    import tensorflow as tf

    # The gradients are not reduced yet: any replica can be the one that overflowed, also one of another worker. Workers
    # that disagreed would wait for each other for ever, since taking the step is a collective operation.
    votes_in_favor = strategy.reduce(tf.distribute.ReduceOp.SUM, votes, axis=None)

    @unconverted
    def take_part(gradients, quotients, trainable_variables):
        method = optimizer._stateful_handle_finite_grads
        method(_passed_on(method, gradients, quotients), trainable_variables)

    def take_step():
        strategy.extended.call_for_each_replica(take_part, args=(gradients, quotients, trainable_variables))

    unanimous = tf.equal(votes_in_favor, strategy.num_replicas_in_sync)
    _cond(unanimous, take_step, optimizer._stateful_handle_non_finite_grads)


def _replace_stateless_apply(original, module):
    @functools.wraps(original)
    def stateless_apply(self, optimizer_variables, grads, trainable_variables):
        if not self.built:
            return original(self, optimizer_variables, grads, trainable_variables)  # which says what is missing
        scale = _ops().convert_to_tensor(optimizer_variables[_position(self, self.dynamic_scale)])
        finite, quotients = _judge(self, grads, None, scale)
        passed_on = _passed_on(self._stateless_handle_finite_grads, grads, quotients)
        with _skips.where(self, finite):
            return _cond(
                finite,
                lambda: self._stateless_handle_finite_grads(optimizer_variables, passed_on, trainable_variables),
                lambda: self._stateless_handle_non_finite_grads(optimizer_variables, trainable_variables),
            )

    return stateless_apply


# --- What becomes of the scale --------------------------------------------------------------------------------------


def _replace_stateful_finite(original, module):
    @functools.wraps(original)
    def _stateful_handle_finite_grads(self, grads, trainable_variables):
        quotients = _quotients_of(self, grads, trainable_variables, self.dynamic_scale)
        self.inner_optimizer.apply(quotients, trainable_variables=trainable_variables)
        rule = _traces.for_update(self, _first(quotients))

        def grow():
            self.dynamic_scale.assign(scaling.after_growth(_ops(), self.dynamic_scale, _MULTIPLIER, rule))
            self.step_counter.assign(0)

        def count():
            self.step_counter.assign_add(1)

        if _never_grows(self):
            return count()
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
        values = _tensors(optimizer_variables)
        scale, good = _state_in(self, values)
        quotients = _quotients_of(self, grads, None, scale)
        rule = _traces.for_update(self, scale)

        def grow():
            return scaling.after_growth(_ops(), scale, _MULTIPLIER, rule), _ops().zeros_like(good)

        def count():
            return scale, good + 1

        if _never_grows(self):
            new_scale, new_good = count()
        else:
            due = scaling.growth_is_due(_backend().numpy, good, self.dynamic_growth_steps, scale, rule)
            new_scale, new_good = _cond(due, grow, count)
        values = _with_state(self, values, new_scale, new_good)
        own = len(self._variables)
        new_variables, new_inner = self.inner_optimizer.stateless_apply(values[own:], quotients, trainable_variables)
        return new_variables, values[:own] + list(new_inner)

    return _stateless_handle_finite_grads


def _replace_stateless_non_finite(original, module):
    @functools.wraps(original)
    def _stateless_handle_non_finite_grads(self, optimizer_variables, trainable_variables):
        values = _tensors(optimizer_variables)
        scale, good = _state_in(self, values)
        new_scale, recorded = _after_overflow(self, scale, good)
        recorded.follow_policy()
        return trainable_variables, _with_state(self, values, new_scale, _ops().zeros_like(good))

    return _stateless_handle_non_finite_grads


def _after_overflow(optimizer, scale, good):
    """The scale after a skipped step, and what is left to do about that."""
    rule = _rules.of(optimizer)
    new_scale = scaling.after_overflow(_ops(), scale, _MULTIPLIER, rule)
    return new_scale, _skips.record(optimizer, scale, good, new_scale, rule)


def _never_grows(optimizer):
    """Stock compares the counter with the interval less 1, which it never is if the interval is 0 or less."""
    return optimizer.dynamic_growth_steps < 1


def _tensors(values):
    return [_ops().convert_to_tensor(value) for value in values]


def _position(optimizer, variable):
    """Where the value of one of the optimizer's own variables stands in `optimizer_variables`."""
    return [candidate is variable for candidate in optimizer.variables].index(True)


def _state_in(optimizer, values):
    return values[_position(optimizer, optimizer.dynamic_scale)], values[_position(optimizer, optimizer.step_counter)]


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
    _method("check_finite", ("grads",), ("isfinite", "all"), _replace_check_finite),
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
