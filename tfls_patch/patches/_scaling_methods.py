"""The methods that scale a loss and unscale gradients, made right for float16 operands.

Stock casts the scale, or its reciprocal, to the type of the operand. For a float16 loss a scale of 2**-30 is then 0,
for float16 gradients the reciprocal of 2**-17 is inf. The replacements hand stock a float32 copy of such operands and
give the result back in the operand's own type; all other operands go through stock's code untouched.
"""

import functools

from tfls_patch import scaling
from tfls_patch.patches._declare import Target


def _replace_scale(original, module):
    @functools.wraps(original)
    def scale_loss(self, loss):
        import tensorflow as tf

        if not callable(loss):
            return scaling.narrowed(tf, original(self, scaling.widened(tf, loss)), loss)
        computed = []

        def widened_loss():
            computed.append(loss())
            return scaling.widened(tf, computed[-1])

        scaled_loss = original(self, widened_loss)
        return lambda: scaling.narrowed(tf, scaled_loss(), computed.pop())

    return scale_loss


def _replace_unscale(original, module):
    @functools.wraps(original)
    def unscale_gradients(self, grads):
        import tensorflow as tf

        grads = list(grads)
        unscaled = original(self, [scaling.widened(tf, gradient) for gradient in grads])
        return [scaling.narrowed(tf, result, gradient) for result, gradient in zip(unscaled, grads)]

    return unscale_gradients


def _pair(class_name, scale_loss, unscale_gradients, uses):
    return [
        Target("%s.%s" % (class_name, scale_loss), ("self", "loss"), uses, _replace_scale),
        Target("%s.%s" % (class_name, unscale_gradients), ("self", "grads"), uses, _replace_unscale),
    ]


#: ``tf.keras.mixed_precision.experimental.LossScaleOptimizer`` of TF 1.15 - 2.3, which holds a ``DynamicLossScale``.
EXPERIMENTAL_OPTIMIZER = _pair("LossScaleOptimizer", "get_scaled_loss", "get_unscaled_gradients", ("_loss_scale",))

#: ``tf.keras.mixed_precision.LossScaleOptimizer`` of TF 2.4 - 2.15 and tf_keras (for legacy optimizers from 2.9 on).
OPTIMIZER = _pair("LossScaleOptimizer", "get_scaled_loss", "get_unscaled_gradients", ("loss_scale",))

#: The same for the new optimizers of TF 2.9 - 2.15 and tf_keras.
OPTIMIZER_V3 = _pair("LossScaleOptimizerV3", "get_scaled_loss", "get_unscaled_gradients", ("loss_scale",))

#: ``MixedPrecisionLossScaleOptimizer``, around the optimizers of TF1; also behind the graph rewrite.
TF1_OPTIMIZER = _pair("MixedPrecisionLossScaleOptimizer", "_scale_loss", "_unscale_grads", ("_loss_scale",))


# --- TF 1.14, where the Keras optimizer calls two functions of its module ------------------------------------------


def _replace_scale_function(original, module):
    @functools.wraps(original)
    def scale_loss(loss, loss_scale):
        return _replace_scale(lambda _, loss: original(loss, loss_scale), module)(None, loss)

    return scale_loss


def _replace_unscale_function(original, module):
    @functools.wraps(original)
    def unscale_grads(grads, loss_scale):
        return _replace_unscale(lambda _, grads: original(grads, loss_scale), module)(None, grads)

    return unscale_grads


EXPERIMENTAL_FUNCTIONS = [
    Target("scale_loss", ("loss", "loss_scale"), (), _replace_scale_function),
    Target("unscale_grads", ("grads", "loss_scale"), (), _replace_unscale_function),
]
