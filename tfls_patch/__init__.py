"""Lifts the floor of 1 on TensorFlow's dynamic loss scale, and gives Keras 3 the bounds that it lacks.

Usage::

    import tfls_patch
    tfls_patch.apply(min_scale=1e-4)

The import alone patches TensorFlow and Keras with the default bounds: now if they are loaded, otherwise the moment they
are imported. `apply` sets other bounds, `revert` goes back to stock, `status` says what is patched and why.
"""

from tfls_patch import _api
from tfls_patch._api import apply, revert, set_bounds, stats, status
from tfls_patch._version import __version__
from tfls_patch.errors import LossScaleError, LossScaleFloorError, TflsPatchWarning, UnsupportedVersionError

__all__ = [
    "LossScaleError",
    "LossScaleFloorError",
    "TflsPatchWarning",
    "UnsupportedVersionError",
    "__version__",
    "apply",
    "revert",
    "set_bounds",
    "stats",
    "status",
]

_api.arm()
