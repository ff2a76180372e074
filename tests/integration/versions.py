"""Which TensorFlow the tests run in, without importing it."""

import importlib.util
import os
import re

_SPEC = importlib.util.find_spec("tensorflow")
if _SPEC is None:
    raise RuntimeError("the integration tests need a TensorFlow: run them with `python3 dev.py test` or `matrix`")


def _read_version():
    """Reads the version from the installed metadata beside the package; the distribution has many names."""
    site = os.path.dirname(os.path.dirname(_SPEC.origin))
    for name in os.listdir(site):
        match = re.match(r"tensorflow(?:_cpu|_gpu|_macos|_rocm)?-(\d+)\.(\d+)\.[^-]*\.dist-info$", name)
        if match:
            return int(match.group(1)), int(match.group(2))
    raise RuntimeError("no metadata of TensorFlow beside " + _SPEC.origin)


VERSION = _read_version()

#: Whether ``tf.keras`` is Keras 3 here.
KERAS_3 = VERSION >= (2, 16) and os.environ.get("TF_USE_LEGACY_KERAS") != "1"
