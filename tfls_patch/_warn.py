"""Warnings that point at the user's own line, however deep in TensorFlow they come up."""

import sys

from tfls_patch.errors import TflsPatchWarning

#: Packages whose code is not the user's.
_NOT_THE_USER = ("tfls_patch", "tensorflow", "tensorflow_core", "keras", "tf_keras")


def at_user_line(message):
    """Gives a `TflsPatchWarning` for the innermost line of code that is not ours, TensorFlow's or Keras's."""
    import warnings  # not on top: most starts of Python have nothing to say

    warnings.warn(message, TflsPatchWarning, stacklevel=_level_of_user())


def _level_of_user():
    frame, level = sys._getframe(2), 2
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _NOT_THE_USER:
        frame, level = frame.f_back, level + 1
    return level
