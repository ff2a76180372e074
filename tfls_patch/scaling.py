"""The update rule of the loss scale, and how reduced-precision operands are scaled. Each stands once, here.

The rule, with ``m`` = min_scale, ``M`` = max_scale, ``k`` = the object's own multiplier, ``n`` = its own growth
interval, ``good`` = its counter of finite steps::

    any gradient non-finite on any replica:   skip the step;  good = 0;  scale = bounded(scale / k)
    all gradients finite:                     take the step;  good += 1
        if good >= n:                         good = 0;  scale = bounded(scale * k)

    bounded(x):                               min(x, M) if x >= m else m        # NaN -> m

So every change lands in ``m <= scale <= M`` and is finite, whatever was restored or set by hand before; a step with
finite gradients that is not a growth step leaves the scale alone. With m = 1 this is TensorFlow's own rule
(Micikevicius et al., "Mixed Precision Training", 2018, with the floor of 1 that TensorFlow adds).

The functions take the array library as their first argument, ``lib``: a module with ``where``, ``minimum``,
``greater_equal``, ``convert_to_tensor`` and ``cast`` (``tf.compat.v2``, or ``keras.ops`` on any backend of Keras 3).
They build graph operations only, and none on the path of a finite step that stock does not have.
"""


def bounded(lib, candidate, bounds):
    """Brings a new loss scale between its bounds.

    Args:
        lib: The array library.
        candidate: The scale that the multiplier alone would give; scalar float32, may be 0, negative, inf or NaN.
        bounds: A `Bounds`.

    Returns:
        A scalar float32 tensor in ``[min_scale, max_scale]``, never NaN.
    """
    # `maximum(minimum(x, M), m)` would be one operation less, but what it makes of NaN depends on the device.
    floor = lib.convert_to_tensor(bounds.min_scale, "float32")  # once: it is one node for two uses
    return lib.where(lib.greater_equal(candidate, floor), lib.minimum(candidate, bounds.max_scale), floor)


def after_overflow(lib, scale, multiplier, bounds):
    """The scale after a step with a non-finite gradient: ``bounded(scale / multiplier)``."""
    return bounded(lib, scale / multiplier, bounds)


def after_growth(lib, scale, multiplier, bounds):
    """The scale when the growth interval is over: ``bounded(scale * multiplier)``."""
    return bounded(lib, scale * multiplier, bounds)


def growth_is_due(lib, good, growth_interval):
    """Whether a finite step completes the growth interval.

    Args:
        lib: The array library.
        good: How many finite steps came before this one since the last change; scalar integer tensor.
        growth_interval: A Python int, the object's own.

    Returns:
        A scalar bool tensor: ``good + 1 >= growth_interval``, written with one operation less.
    """
    return lib.greater_equal(good, growth_interval - 1)


def is_float16(operand):
    """Whether a tensor, variable or slices object of any backend is float16, whose range cannot hold every scale."""
    dtype = getattr(operand, "dtype", None)
    name = getattr(dtype, "name", None) or str(dtype)
    return name.split(".")[-1] in ("float16", "float16_ref")


def widened(lib, operand):
    """Returns a float16 operand as float32, anything else as it is.

    A scale of 2**-17 has a reciprocal of 131072, which float16 does not hold; a scale of 2**-30 is 0 there. float32
    holds every scale between the bounds, and every product with a float16 to the last bit if the scale is a power of
    two. bfloat16 has the range of float32 and is left to stock.
    """
    return _with_dtype(lib, operand, "float32") if is_float16(operand) else operand


def narrowed(lib, result, operand):
    """Returns `result`, computed from ``widened(operand)``, in the type of `operand`; overflow becomes inf."""
    return _with_dtype(lib, result, "float16") if is_float16(operand) else result


def _with_dtype(lib, operand, dtype):
    if hasattr(operand, "dense_shape") and hasattr(operand, "values"):  # tf.IndexedSlices must stay sparse
        return type(operand)(lib.cast(operand.values, dtype), operand.indices, operand.dense_shape)
    return lib.cast(operand, dtype)
