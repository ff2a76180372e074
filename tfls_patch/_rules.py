"""Which rule an object obeys at this moment, and which traced graphs carry another.

The one piece of mutable state that the replacement methods read. Locks are held for dictionary work only; nothing is
imported and no user code runs under them.
"""

import gc
import sys
import types
import weakref
from _thread import allocate_lock  # threading itself takes longer to import than this package

from tfls_patch._settings import Settings, check_order, checked_scale

#: Instance attribute with an object's own bounds, a plain tuple ``(min_scale or None, max_scale or None)``: it is
#: copied by ``copy.deepcopy``, dies with its object, and unpickles where this package is not installed.
OWN_ATTRIBUTE = "_tfls_patch_bounds"

_lock = allocate_lock()
_settings = None  # made on first use, so that importing this module reads no environment
_traces = weakref.WeakKeyDictionary()  # graph -> list of (weak reference to the object, rule it was traced with)
_jax_traces = []  # the same pairs; a JAX trace has no graph object that lives as long as the compiled step


def settings():
    """Returns the process-wide `Settings` in force."""
    global _settings
    with _lock:
        if _settings is None:
            _settings = Settings.from_environment()[0]
        return _settings


def use(new_settings):
    """Puts `new_settings` in force; None goes back to what the environment says."""
    global _settings
    with _lock:
        _settings = new_settings


def of(owner):
    """Returns the `Rule` of one loss-scale object: the process-wide one, with the bounds of its own that it has."""
    rule = settings().rule
    low, high = vars(owner).get(OWN_ATTRIBUTE, (None, None))
    # What the object was given wins: a process-wide bound on the other side of it gives way.
    if low is None:
        low = rule.min_scale if high is None else min(rule.min_scale, high)
    if high is None:
        high = max(rule.max_scale, low)
    return rule._replace(min_scale=low, max_scale=high)


def for_update(owner, value):
    """Returns the `Rule` for an update that is being built, and remembers it if the update is being traced.

    Args:
        owner: The object with the loss scale.
        value: Any tensor of the update, which tells whether this is a trace.
    """
    rule = of(owner)
    _remember_trace(owner, value, rule)
    return rule


def set_own(owner, min_scale, max_scale):
    """Gives one loss-scale object bounds of its own; None leaves that side to the process-wide bounds.

    Raises:
        TypeError, ValueError: as `checked_scale`; nothing is changed then.
    """
    low = None if min_scale is None else checked_scale("min_scale", min_scale)
    high = None if max_scale is None else checked_scale("max_scale", max_scale)
    old_low, old_high = vars(owner).get(OWN_ATTRIBUTE, (None, None))
    low = old_low if low is None else low
    high = old_high if high is None else high
    if low is not None and high is not None:
        check_order(low, high)
    # Not setattr: Keras and Trackable objects would track, wrap or delegate the attribute.
    vars(owner)[OWN_ATTRIBUTE] = (low, high)
    if type(owner).__reduce__ is not object.__reduce__:
        # Keras 3 copies an optimizer by way of its saved form, which has none of our bounds.
        vars(owner)["__deepcopy__"] = types.MethodType(_copy_with_bounds, owner)


def _copy_with_bounds(owner, memo):
    function, arguments = owner.__reduce__()[:2]
    twin = memo[id(owner)] = function(*arguments)
    set_own(twin, *vars(owner)[OWN_ATTRIBUTE])
    return twin


def has_stale_traces():
    """Whether a traced update that is still alive carries another rule than its object has now."""
    if not _any_stale():
        return False
    gc.collect()  # graphs are full of cycles: a dead one may only look alive
    return _any_stale()


def _any_stale():
    with _lock:
        records = [record for graph in list(_traces.values()) for record in graph] + _jax_traces
    alive = [(owner(), traced) for owner, traced in records]
    return any(owner is not None and of(owner) != traced for owner, traced in alive)


def _remember_trace(owner, value, rule):
    record = (weakref.ref(owner), rule)
    jax = sys.modules.get("jax")
    if isinstance(value, getattr(getattr(jax, "core", None), "Tracer", ())):
        with _lock:
            _jax_traces[:] = [each for each in _jax_traces if each[0]() is not None] + [record]
        return
    graph = graph_of(value)
    with _lock:
        # The branch graph of a `cond` may be freed before the function around it: note that one too.
        while graph is not None:
            _traces.setdefault(graph, []).append(record)
            outer = getattr(graph, "outer_graph", None)
            graph = outer if hasattr(outer, "outer_graph") else None


def graph_of(value):
    """The TensorFlow graph that `value` is part of; None for eager tensors and for other backends."""
    try:
        return getattr(value, "graph", None)
    except AttributeError:
        return None
    except Exception:  # eager tensors refuse the attribute with errors of their own in some versions
        return None
