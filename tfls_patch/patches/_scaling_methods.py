"""The methods that scale a loss and unscale gradients, made right for float16 operands.

Stock casts the scale, or its reciprocal, to the type of the operand. For a float16 loss a scale of 2**-30 is then 0,
for float16 gradients the reciprocal of 2**-17 is inf. The replacements do the arithmetic of such operands themselves;
all other operands go through stock's code untouched.
"""

import functools

from tfls_patch import _diagnosis, _float16
from tfls_patch.patches._declare import Target


def _scaled(loss, scale, by_stock, optimizer=None):
    """Scales a loss: a float16 one ourselves, any other, or a function that gives one, as `by_stock` does.

    Args:
        loss: A tensor, or a function without arguments that returns one.
        scale: A function that returns the scale as a float32 tensor.
        by_stock: A function of one loss tensor.
        optimizer: The one whose loss it is; None if that is not known.
    """
    import tensorflow as tf

    def scaled(value):
        value = _diagnosis.see_loss(value, optimizer)
        return _float16.product(tf, value, scale()) if _float16.is_float16(value) else by_stock(value)

    return (lambda: scaled(loss())) if callable(loss) else scaled(loss)


def _unscaled(gradients, scale, by_stock):
    """Unscales gradients: float16 ones ourselves, the others, None among them, as `by_stock` does."""
    import tensorflow as tf

    gradients = list(gradients)
    if not any(map(_float16.is_float16, gradients)):
        return by_stock(gradients)
    divisor = scale()
    others = by_stock([None if _float16.is_float16(gradient) else gradient for gradient in gradients])
    return [
        _float16.quotient(tf, gradient, divisor) if _float16.is_float16(gradient) else other
        for gradient, other in zip(gradients, others)
    ]


def _scale_of(optimizer, name):
    """The current scale of an optimizer: in the attribute `name`, or what that gives when it is called."""
    scale = getattr(optimizer, name)
    return scale() if callable(scale) else scale


def _replace_scale(name, original, module):
    @functools.wraps(original)
    def scale_loss(self, loss):
        return _scaled(loss, lambda: _scale_of(self, name), functools.partial(original, self), self)

    return scale_loss


def _replace_unscale(name, original, module):
    @functools.wraps(original)
    def unscale_gradients(self, grads):
        return _unscaled(grads, lambda: _scale_of(self, name), functools.partial(original, self))

    return unscale_gradients


def _pair(class_name, scale_loss, unscale_gradients, scale):
    """The two methods of a class that has its scale in the attribute `scale`."""
    return [
        Target(
            "%s.%s" % (class_name, scale_loss), ("self", "loss"), (scale,), functools.partial(_replace_scale, scale)
        ),
        Target(
            "%s.%s" % (class_name, unscale_gradients),
            ("self", "grads"),
            (scale,),
            functools.partial(_replace_unscale, scale),
        ),
    ]


#: ``tf.keras.mixed_precision.experimental.LossScaleOptimizer`` of TF 1.15 - 2.3, which holds a ``DynamicLossScale``.
EXPERIMENTAL_OPTIMIZER = _pair("LossScaleOptimizer", "get_scaled_loss", "get_unscaled_gradients", "_loss_scale")

#: ``tf.keras.mixed_precision.LossScaleOptimizer`` of TF 2.4 - 2.15 and tf_keras (for legacy optimizers from 2.9 on).
OPTIMIZER = _pair("LossScaleOptimizer", "get_scaled_loss", "get_unscaled_gradients", "loss_scale")

#: The same for the new optimizers of TF 2.9 - 2.15 and tf_keras.
OPTIMIZER_V3 = _pair("LossScaleOptimizerV3", "get_scaled_loss", "get_unscaled_gradients", "loss_scale")

#: ``MixedPrecisionLossScaleOptimizer``, around the optimizers of TF1; also behind the graph rewrite.
TF1_OPTIMIZER = _pair("MixedPrecisionLossScaleOptimizer", "_scale_loss", "_unscale_grads", "_loss_scale")


# --- TF 1.14, where the Keras optimizer calls two functions of its module ------------------------------------------


def _replace_scale_function(original, module):
    @functools.wraps(original)
    def scale_loss(loss, loss_scale):
        return _scaled(loss, lambda: loss_scale, lambda value: original(value, loss_scale))

    return scale_loss


def _replace_unscale_function(original, module):
    @functools.wraps(original)
    def unscale_grads(grads, loss_scale):
        return _unscaled(grads, lambda: loss_scale, lambda others: original(others, loss_scale))

    return unscale_grads


EXPERIMENTAL_FUNCTIONS = [
    Target("scale_loss", ("loss", "loss_scale"), (), _replace_scale_function),
    Target("unscale_grads", ("grads", "loss_scale"), (), _replace_unscale_function),
]


# --- tf.contrib's own optimizer (TF 1.14 - 1.15) -------------------------------------------------------------------


def _replace_compute_gradients(original, module):
    @functools.wraps(original)
    def compute_gradients(self, loss, *args, **kwargs):
        import tensorflow as tf

        scale = self._loss_scale_manager.get_loss_scale()
        if callable(loss) and not tf.executing_eagerly():
            loss = loss()
        scaled = _scaled(loss, lambda: scale, lambda value: value * tf.cast(scale, value.dtype.base_dtype), self)
        return self._down_scale(self._opt.compute_gradients(scaled, *args, **kwargs), scale)

    return compute_gradients


def _replace_down_scale(original, module):
    @functools.wraps(original)
    def _down_scale(self, grads_vars, loss_scale):
        variables = [variable for _, variable in grads_vars]

        def by_stock(others):
            return [gradient for gradient, _ in original(self, list(zip(others, variables)), loss_scale)]

        unscaled = _unscaled([gradient for gradient, _ in grads_vars], lambda: loss_scale, by_stock)
        return list(zip(unscaled, variables))

    return _down_scale


CONTRIB_OPTIMIZER = [
    Target(
        path="LossScaleOptimizer.compute_gradients",
        parameters=(
            "self",
            "loss",
            "var_list",
            "gate_gradients",
            "aggregation_method",
            "colocate_gradients_with_ops",
            "grad_loss",
        ),
        uses=("_loss_scale_manager", "get_loss_scale", "_opt", "_down_scale"),
        replace=_replace_compute_gradients,
    ),
    Target("LossScaleOptimizer._down_scale", ("self", "grads_vars", "loss_scale"), (), _replace_down_scale),
]
