"""What is known of one loss scale: `stats`."""

import collections
import functools
import sys

from tfls_patch import _owners, _rules, _skips, _traces, _warn
from tfls_patch._settings import SKIP
from tfls_patch.errors import LossScaleError

Stats = collections.namedtuple(
    "Stats", ["scale", "skipped", "skipped_in_a_row", "skipped_at_floor", "lowest_scale", "highest_scale"]
)
Stats.__doc__ = """The state of one loss scale, in Python numbers.

Attributes:
    scale: The loss scale now, float.
    skipped: How many steps were skipped, int.
    skipped_in_a_row: How many of them since the last step that was taken, int; 0 if the last step was taken.
    skipped_at_floor: How many were skipped with the scale at its floor, int.
    lowest_scale: The lowest scale that a skipped step has led to, or the scale now, float.
    highest_scale: The highest scale that a step was skipped at, or the scale now, float.

All but `scale` are None where nothing is on record.
"""


def of(optimizer):
    """Returns the `Stats` of an optimizer or loss-scale object. See `tfls_patch.stats`."""
    owner = _owners.dynamic_scale_of(optimizer)
    _skips.want(owner)
    scale, good = _owners.state_of(owner)
    evaluate = _evaluator(scale)
    scale, good = (float(evaluate("", lambda: variable)) for variable in (scale, good))
    why = _why_there_is_no_record(owner)
    if why:
        _warn.at_user_line("Only the scale is known: " + why)
        return Stats(scale, None, None, None, None, None)
    found = _skips.read(owner, evaluate)
    goes_on = good == 0 and scale == found.last_scale
    return Stats(
        scale,
        int(found.skipped),
        int(found.in_a_row) if goes_on else 0,
        int(found.at_floor),
        min(scale, found.lowest),
        max(scale, found.highest),
    )


def _why_there_is_no_record(owner):
    """Returns the reason, or an empty text if there is a record, be it an empty one."""
    if _skips.is_kept(owner):
        return ""
    if _skips.has_no_place(owner):
        return (
            "its step was traced (tf.function) before a record was asked for. Call tfls_patch.stats(optimizer) once "
            "before the first step, or set at_floor to 'warn' or 'raise'. Under XLA with a distribution strategy there "
            "is no place for one"
        )
    if _backend() == "jax" and _rules.of(owner).at_floor == SKIP:
        return "on JAX a step is a pure function, and skipped steps are on record only with at_floor 'warn' or 'raise'"
    return ""


def _evaluator(variable):
    """Returns ``evaluate(name, function)``, which gives the value of the tensor that the function returns.

    Raises:
        LossScaleError: There is no value to be had here.
    """
    if isinstance(variable, (int, float)):  # nothing is built yet
        return lambda name, function: function()
    if _backend() not in ("tensorflow", None):
        return _evaluate_on_keras
    import tensorflow as tf

    graph = _traces.graph_of(variable)
    if graph is not None:
        return functools.partial(_run, tf, _session_of(tf, graph))
    if not tf.executing_eagerly():
        raise LossScaleError(
            "tfls_patch.stats(optimizer) gives numbers, and a function that is being traced has none: call it outside "
            "of tf.function, between the steps"
        )
    return lambda name, function: tf.convert_to_tensor(function()).numpy()


def _evaluate_on_keras(name, function):
    try:
        return sys.modules["keras"].ops.convert_to_numpy(function())
    except (
        RuntimeError
    ) as error:  # on JAX the trainer takes the state with it, and brings it back at the end of an epoch
        raise LossScaleError(
            "The loss scale cannot be read now (%s): call tfls_patch.stats(optimizer) after fit(), or in on_epoch_end"
            % error
        )


def _backend():
    """The backend of Keras 3, or None if that is not loaded."""
    config = sys.modules.get("keras.src.backend.config")
    return config.backend() if hasattr(config, "backend") else None


def _session_of(tf, graph):
    """The session that runs `graph`: the default one, or the one of Keras in TF1."""
    keras_backend = sys.modules.get("tensorflow.python.keras.backend")
    holder = getattr(keras_backend, "_SESSION", None)
    for session in (tf.compat.v1.get_default_session(), getattr(holder, "session", None)):
        if session is not None and session.graph is graph:
            return session
    raise LossScaleError(
        "The loss scale lives in a TF1 graph: call tfls_patch.stats(optimizer) inside `with session.as_default():` of "
        "the session that runs it"
    )


def _run(tf, session, name, function):
    graph = session.graph
    if not name:
        return session.run(function())
    try:
        return session.run(graph.get_tensor_by_name("tfls_patch/%s:0" % name))
    except KeyError:
        pass
    if graph.finalized:
        raise LossScaleError(
            "The graph is finalized, and reading the record takes an operation: call tfls_patch.stats(optimizer) once "
            "before it is, in any session of the graph (before MonitoredTrainingSession is entered)"
        )
    with graph.as_default(), tf.compat.v1.name_scope("tfls_patch/"), tf.control_dependencies(None):
        return session.run(tf.identity(function(), name=name))
