"""Keeps AutoGraph away from our functions, which are graph operations already.

TensorFlow exempts its own modules from conversion, but not ``tensorflow.python.training.experimental``, where
``DynamicLossScale`` lives; and a distribution strategy converts the functions that it is given.
"""


def unconverted(function):
    """Marks a function, in place, as one that AutoGraph runs as it is; returns it.

    The marks are those that AutoGraph puts on what it has converted: the first from TF 1.15 on, the second before 2.2.
    ``tf.autograph.experimental.do_not_convert`` would wrap the function and need TensorFlow to be imported in full.
    """
    vars(function)["autograph_info__"] = {}
    vars(function)["__ag_compiled"] = True
    return function
