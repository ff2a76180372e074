"""Which traced graphs carry another rule than their object has now: a trace keeps the rule it was made with.

Apart from `_rules` because only patched functions need it: a start of Python without TensorFlow does without weak
references. Locks are held for dictionary work only; nothing is imported and no user code runs under them.
"""

import gc
import sys
import weakref
from _thread import allocate_lock  # threading itself takes longer to import than this package

from tfls_patch import _rules

_lock = allocate_lock()
_traces = weakref.WeakKeyDictionary()  # graph -> list of (weak reference to the object, rule it was traced with)
_jax_traces = []  # the same pairs; a JAX trace has no graph object that lives as long as the compiled step


def for_update(owner, value):
    """Returns the `Rule` for an update that is being built, and remembers it if the update is being traced.

    Args:
        owner: The object with the loss scale.
        value: Any tensor of the update, which tells whether this is a trace.
    """
    rule = _rules.of(owner)
    _remember_trace(owner, value, rule)
    return rule


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
    return any(owner is not None and _rules.of(owner) != traced for owner, traced in alive)


def _remember_trace(owner, value, rule):
    record = (weakref.ref(owner), rule)
    if is_of_jax_trace(value):
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


def is_of_jax_trace(value):
    """Whether `value` stands for one that a function which JAX traces will have."""
    jax = sys.modules.get("jax")
    return isinstance(value, getattr(getattr(jax, "core", None), "Tracer", ()))


def graph_of(value):
    """The TensorFlow graph that `value` is part of; None for eager tensors and for other backends."""
    try:
        return getattr(value, "graph", None)
    except AttributeError:
        return None
    except Exception:  # eager tensors refuse the attribute with errors of their own in some versions
        return None
