"""Is XLA compiling the step that is being traced?"""

import importlib


def is_compiling():
    """Whether XLA compiles what is being traced as a whole, so that tables, printing and errors are not to be had."""
    import tensorflow as tf

    if tf.executing_eagerly():
        return False
    util = importlib.import_module("tensorflow.python.ops.control_flow_util")
    return util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def may_be_compiling():
    """Whether that cannot be known: a ``tf.function`` of TF 1.15 does not say so while it is being traced."""
    import tensorflow as tf

    graph = tf.compat.v1.get_default_graph()
    return tf.__version__.startswith("1.15") and not tf.executing_eagerly() and graph.building_function
