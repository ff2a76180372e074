"""What a patch module is made of."""

import collections

Target = collections.namedtuple("Target", ["path", "parameters", "uses", "replace"])
Target.__doc__ = """One function that is replaced, and the shape that it must have for that.

Attributes:
    path: Where it is inside its module, e.g. ``"DynamicLossScale.update"``.
    parameters: Its parameter names, in order. With `...` at the end more may follow, which the replacement hands on.
    uses: Names of attributes and globals that stock's code must mention: the state that the replacement goes by.
    replace: ``replace(original, module) -> function``, which makes the replacement.
"""
