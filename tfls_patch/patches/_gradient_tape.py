"""``LossScaleGradientTape`` (TF 2.1 - 2.7): goes on retrying below 1, down to the floor.

Algorithm::

    do:
        scale the target, take the gradients, unscale them          # on every replica
        finite = loss_scale.update(gradients)                       # halves the scale if not
    while not finite and scale > min_scale
    return the gradients of the last pass

The first pass always runs: in TF 2.1 a scale that starts at the bound skips it, and the variables themselves come
back in place of gradients.
"""

import functools

from tfls_patch import _diagnosis, _float16, _traces
from tfls_patch._autograph import unconverted
from tfls_patch.patches._declare import Target


def _replace_loop(original, module):
    @functools.wraps(original)
    def compute(
        distribution, loss_scale_gradient_tapes, loss_scale, target, sources, output_gradients, unconnected_gradients
    ):
        import tensorflow as tf

        flat_sources = tf.nest.flatten(sources)
        run = getattr(distribution, "run", None) or distribution.experimental_run_v2
        # A loop variable cannot be None: such gradients are carried as the source itself and set right at the end.
        is_none = []

        @unconverted
        def one_pass(tape, target, sources, output_gradients, carried):
            scale = loss_scale()
            scaled = _scaled_gradients(module, tape, scale, target, sources, output_gradients, unconnected_gradients)
            reciprocal = 1.0 / scale  # once, not for each gradient
            is_none[:] = [gradient is None for gradient in scaled]
            return [
                like if gradient is None else _unscaled(tf.ensure_shape(gradient, like.shape), scale, reciprocal)
                for gradient, like in zip(scaled, carried)
            ]

        def body(gradients, finite, first):
            del finite, first
            gradients = run(
                one_pass, args=(loss_scale_gradient_tapes, target, flat_sources, output_gradients, gradients)
            )
            _, finite = loss_scale.update(gradients)
            return gradients, finite, False

        def again(gradients, finite, first):
            del gradients
            floor = _floor_of(loss_scale, finite)
            return tf.logical_or(first, tf.logical_and(tf.logical_not(finite), tf.greater(loss_scale(), floor)))

        start = flat_sources
        if tf.distribute.has_strategy():
            # What goes into the loop must be of the kind that comes out of it: one tensor for each replica.
            start = run(unconverted(lambda values: [tf.identity(value) for value in values]), args=(flat_sources,))
        gradients, _, _ = tf.while_loop(again, body, [start, False, True])
        gradients = [None if none else gradient for none, gradient in zip(is_none, gradients)]
        return tf.nest.pack_sequence_as(sources, gradients)

    return compute


def _scaled_gradients(module, tape, scale, target, sources, output_gradients, unconnected_gradients):
    import tensorflow as tf

    def scaled(tensor):
        tensor = _diagnosis.see_loss(tensor)
        if _float16.is_float16(tensor):
            return _float16.product(tf, tensor, scale)
        return tensor * tf.cast(scale, tensor.dtype)

    with tape:  # it must see the scaling, to differentiate through it
        scaled_target = tf.nest.map_structure(scaled, target)
    plain_tape = super(module.LossScaleGradientTape, tape)
    return plain_tape.gradient(scaled_target, sources, output_gradients, unconnected_gradients)


def _unscaled(gradient, scale, reciprocal):
    import tensorflow as tf

    if _float16.is_float16(gradient):
        return _float16.quotient(tf, gradient, scale)
    return gradient * tf.cast(reciprocal, gradient.dtype)


def _floor_of(loss_scale, value):
    """A fixed loss scale is always "finite" and never retried, whatever its floor."""
    return _traces.for_update(loss_scale, value).min_scale


GRADIENT_TAPE = Target(
    path="_compute_gradients_until_finite",
    parameters=(
        "distribution",
        "loss_scale_gradient_tapes",
        "loss_scale",
        "target",
        "sources",
        "output_gradients",
        "unconnected_gradients",
    ),
    uses=("while_loop", "LossScaleGradientTape", "update"),
    replace=_replace_loop,
)
