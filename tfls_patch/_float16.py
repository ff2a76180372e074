"""float16 operands, multiplied or divided by the loss scale and rounded once.

A scale of 2**-17 has a reciprocal of 131072, which float16 does not hold; a scale of 2**-30 is 0 there. float32 holds
every scale between the bounds, so the arithmetic is done in float32. Rounding the result to float16 is then a second
rounding, and gives the wrong neighbor if the first one landed exactly midway between two float16 numbers. That cannot
happen if the scale is a power of two. For other scales, such as ``min_scale=1e-4``, the sign of the first rounding's
error decides::

    wide = operand * scale  or  operand / scale     # in float32
    near = wide rounded to float16
    far  = 2 * wide - near                          # a float16 only if wide is midway: the other neighbor
    if far is a float16, and the exact result is on its side of wide:   far
    else:                                                               near

The error is computed exactly: the scale is split into two halves of 12 bits, whose products float32 holds
(T. J. Dekker, "A floating-point technique for extending the available precision", 1971).

bfloat16 has the range of float32, and is left to stock like every other type. ``lib`` is the array library, as in
`tfls_patch.scaling`.
"""

#: The greatest float16.
MAX = 65504.0

#: The first number that rounds to infinity in float16.
_OVERFLOW = 65520.0


def is_float16(operand):
    """Whether a tensor, variable or slices object of any backend is float16, whose range cannot hold every scale."""
    dtype = getattr(operand, "dtype", None)
    name = getattr(dtype, "name", None) or str(dtype)
    return name.split(".")[-1] in ("float16", "float16_ref")


def widened(lib, operand):
    """Returns a float16 operand as float32, which holds it to the last bit; anything else as it is."""
    return _of_values(lambda values: lib.cast(values, "float32"), operand) if is_float16(operand) else operand


def narrowed(lib, operand):
    """Returns an operand as float16, infinite where that cannot hold it."""
    return _of_values(lambda values: lib.cast(values, "float16"), operand)


def product(lib, operand, scale):
    """Multiplies by the loss scale.

    Args:
        lib: The array library.
        operand: A float16 tensor or ``tf.IndexedSlices`` of any shape.
        scale: Scalar float32 tensor, above 0.

    Returns:
        The product, correctly rounded, in the type and form of `operand`; infinite if float16 cannot hold it.
    """

    def multiply(values):
        high, low = _halves(scale)
        wide = values * scale
        return _rounded(lib, wide, (values * high - wide) + values * low)

    return _of_values(lambda values: multiply(lib.cast(values, "float32")), operand)


def quotient(lib, operand, scale):
    """Divides by the loss scale; arguments and result as for `product`."""

    def divide(values):
        high, low = _halves(scale)
        wide = values / scale
        # The error times the scale, which has the same sign. It is exact where it matters: midway, wide has 12 bits.
        return _rounded(lib, wide, (values - wide * high) - wide * low)

    return _of_values(lambda values: divide(lib.cast(values, "float32")), operand)


def _halves(scale):
    """Splits a float32 into two numbers of at most 12 bits that add up to it."""
    shifted = scale * 4097.0  # 2**12 + 1
    high = shifted - (shifted - scale)
    return high, scale - high


def _rounded(lib, wide, error):
    """Rounds float32 to float16, as if from the exact number that lies beside `wide` on the side of `error`."""
    near = lib.cast(wide, "float16")
    near_wide = lib.cast(near, "float32")
    far_wide = 2.0 * wide - near_wide
    far = lib.cast(far_wide, "float16")
    is_midway = lib.logical_and(
        lib.equal(lib.cast(far, "float32"), far_wide), lib.less(lib.abs(near_wide), _OVERFLOW)
    )  # of an infinite one the other neighbor is not known; it stays infinite
    is_beyond = lib.greater(error * (far_wide - near_wide), 0.0)  # so far and near are not the same number, either
    return lib.where(lib.logical_and(is_midway, is_beyond), far, near)


def _of_values(function, operand):
    if hasattr(operand, "dense_shape") and hasattr(operand, "values"):  # tf.IndexedSlices must stay sparse
        return type(operand)(function(operand.values), operand.indices, operand.dense_shape)
    return function(operand)
