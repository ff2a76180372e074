"""Does an installed class look like the one that a patch was written for?

The version range says "this was tested", the shape says "this is safe". Both must hold before anything is replaced.
"""

import inspect
import types

import wrapt

from tfls_patch._autograph import unconverted
from tfls_patch._ledger import Entry


class ShapeMismatch(Exception):
    """A target is missing or differs; the text says where and how."""


def entry_for(leaf, module, target):
    """Checks one target in a loaded module and prepares its replacement, without changing anything.

    Args:
        leaf: Name of the module.
        module: The module object.
        target: A `Target`.

    Returns:
        A ledger `Entry`.

    Raises:
        ShapeMismatch: the target is missing, has other parameters, uses other attributes, or is no longer stock.
    """
    where = "%s.%s" % (leaf, target.path)
    try:
        owner, name, original = wrapt.resolve_path(module, target.path)
    except AttributeError:
        raise ShapeMismatch("%s does not exist" % where)
    was_own = name in vars(owner)
    original = vars(owner).get(name, original)
    _check_stock(where, leaf, original)
    _check_parameters(where, original, target.parameters)
    _check_attributes(where, original, target.uses)
    return Entry(leaf, module, owner, name, original, _replacement(target, original, module), was_own)


def _check_stock(where, leaf, original):
    if type(original) is not types.FunctionType:  # not isinstance: a wrapper of wrapt says it is what it wraps
        raise ShapeMismatch(
            "%s is a %s, not a plain function: something has wrapped it" % (where, type(original).__name__)
        )
    # functools.wraps copies __module__, so the globals tell who really wrote the function.
    home = original.__globals__.get("__name__", "?")
    # TensorFlow's decorators are at home in TensorFlow, also on a method of Keras.
    if home.split(".")[0].replace("tensorflow_core", "tensorflow") not in (leaf.split(".")[0], "tensorflow"):
        raise ShapeMismatch("%s was already replaced by a function of the module %s" % (where, home))


def _check_parameters(where, original, expected):
    found = tuple(inspect.signature(original).parameters)
    is_open = expected[-1] is Ellipsis
    fits = found[: len(expected) - 1] == expected[:-1] if is_open else found == expected
    if not fits:
        shown = ", ".join("..." if name is Ellipsis else name for name in expected)
        raise ShapeMismatch("%s takes (%s), expected (%s)" % (where, ", ".join(found), shown))


def _check_attributes(where, original, expected):
    missing = set(expected) - _names_in(inspect.unwrap(original).__code__)
    if missing:
        raise ShapeMismatch("%s does not use %s any more" % (where, ", ".join(sorted(missing))))


def _names_in(code):
    """Every attribute and global that a function or the functions inside it name."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_in(constant)
    return names


def _replacement(target, original, module):
    replacement = target.replace(original, module)
    # TensorFlow's decorators leave a record of themselves in the function, and functools.wraps has copied it; with it
    # TensorFlow would look through our function to what it stands for.
    vars(replacement).pop("_tf_decorator", None)
    return unconverted(replacement)
