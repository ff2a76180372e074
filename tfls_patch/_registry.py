"""Which patch module belongs to which version, and how the versions are read.

`TABLE` is the one list to edit for a new version; the patch modules themselves say what they replace.
"""

import sys

from tfls_patch._record import Record


class Row(Record):
    """A package whose version decides, the range of its minor versions, and the module in `tfls_patch.patches`."""

    __slots__ = ()
    _fields = ("package", "versions", "module")


TABLE = (
    Row("tensorflow", ">=1.14,<1.15", "tf_1_14"),
    Row("tensorflow", ">=1.15,<2.0", "tf_1_15"),
    Row("tensorflow", ">=2.0,<2.1", "tf_2_0"),
    Row("tensorflow", ">=2.1,<2.4", "tf_2_1_to_2_3"),
    Row("tensorflow", ">=2.4,<2.5", "tf_2_4"),
    Row("tensorflow", ">=2.5,<2.8", "tf_2_5_to_2_7"),
    Row("tensorflow", ">=2.8,<2.13", "tf_2_8_to_2_12"),
    Row("tensorflow", ">=2.13,<2.16", "tf_2_13_to_2_15"),
    Row("tensorflow", ">=2.16,<2.23", "tf_2_16_to_2_22"),
    Row("tf_keras", ">=2.15,<2.23", "tf_keras_2_15_to_2_22"),
    Row("keras", ">=3.0,<3.17", "keras_3"),
)

#: Every module that any version keeps a floor in, with the package whose version decides about it. Only these leaves
#: are watched, never a package: some versions of wrapt leave a loader of their own in a watched module.
LEAVES = {  # in this order
    "tensorflow.python.training.experimental.loss_scale": "tensorflow",
    "tensorflow.python.training.experimental.loss_scale_optimizer": "tensorflow",
    "tensorflow.python.training.experimental.loss_scaling_gradient_tape": "tensorflow",
    "tensorflow.contrib.mixed_precision.python.loss_scale_manager": "tensorflow",
    "tensorflow.contrib.mixed_precision.python.loss_scale_optimizer": "tensorflow",
    "tensorflow.python.keras.mixed_precision.experimental.loss_scale_optimizer": "tensorflow",
    "tensorflow.python.keras.mixed_precision.loss_scale_optimizer": "tensorflow",
    # Keras 2 was released with TensorFlow, minor for minor.
    "keras.mixed_precision.loss_scale_optimizer": "tensorflow",
    "keras.src.mixed_precision.loss_scale_optimizer": "tensorflow",
    "tf_keras.src.mixed_precision.loss_scale_optimizer": "tf_keras",
    "keras.src.optimizers.loss_scale_optimizer": "keras",
}

#: Importing any of these is what `_activation` waits for.
TOP_LEVEL = ("tensorflow", "keras", "tf_keras")

_targets = {}  # patch module -> its TARGETS, once it is loaded

#: Where each package says its version from its first moment on; the top-level ``__version__`` comes last of all.
_VERSION_PLACES = {
    "tensorflow": ("tensorflow.python.framework.versions", "VERSION"),
    "tf_keras": ("tf_keras.src", "__version__"),
    "keras": ("keras.src.version", "__version__"),
}


def version_text(package):
    """Returns the version that a loaded package gives itself, e.g. ``"2.22.0-rc0"``, or None if it is not loaded.

    The package is asked, not the metadata: tensorflow-cpu, -gpu, -macos, -rocm, nightlies and vendor builds all
    install the package ``tensorflow`` under other names.

    Nothing is imported: the package may be half imported by another thread, which an import here would break.
    """
    if sys.modules.get(package) is None:
        return None
    place, attribute = _VERSION_PLACES[package]
    text = getattr(sys.modules.get(place), attribute, None) or getattr(sys.modules[package], "__version__", None)
    return str(text) if text else _version_of_distribution(package)


def _version_of_distribution(package):
    """What the installed metadata says; Keras 3 and tf_keras may know their own version only when imported in full."""
    if package == "tensorflow":  # it goes by many names, and knows itself from its first moment
        return None
    try:
        from importlib import metadata  # Python 3.8 on; tf_keras needs 3.9
    except ImportError:
        return None
    for name in (package, package + "-nightly"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return None


def release(text):
    """Returns ``(major, minor)`` of a version text, rc, nightly, vendor and ``+local`` suffixes aside; None if none.

    Nothing more of a version decides here. Without packaging, whose import takes more of the time of
    ``import tensorflow`` than all the rest of the patch.
    """
    import re  # not on top: it takes longer to import than this package

    match = re.match(r"\s*v?(\d+)\.(\d+)", text or "")
    return (int(match.group(1)), int(match.group(2))) if match else None


def row_for(package, text):
    """Finds the row for a version.

    Returns:
        ``(row, is_tested)``: a version above the newest range gets the newest row with ``is_tested`` False;
        ``(None, False)`` if the version is older than all or unreadable.
    """
    found = release(text)
    rows = [row for row in TABLE if row.package == package]
    if found is None:
        return None, False
    for row in rows:
        low, high = map(release, bounds_of_range(row.versions))
        if low <= found < high:
            return row, True
    newest = rows[-1]
    return (newest, False) if found >= release(bounds_of_range(newest.versions)[0]) else (None, False)


def bounds_of_range(versions):
    """Returns the lower and upper end of a range as texts: ``">=2.4,<2.6"`` -> ``("2.4", "2.6")``."""
    low, high = versions.split(",")
    return low[len(">=") :], high[len("<") :]


def supported(package):
    """Returns the whole supported range of a package, e.g. ``"tensorflow >=1.14,<2.23"``."""
    rows = [row for row in TABLE if row.package == package]
    low, high = bounds_of_range(rows[0].versions)[0], bounds_of_range(rows[-1].versions)[1]
    return "%s >=%s,<%s" % (package, low, high)


def targets_of(row):
    """Returns the ``TARGETS`` of a row's patch module: leaf module name -> list of `Target`."""
    if row.module not in _targets:  # before Python 3.10 import_module takes Python's global lock for loaded ones too
        import importlib  # not on top: up to Python 3.7 it loads what takes longer to import than this package

        _targets[row.module] = importlib.import_module("tfls_patch.patches." + row.module).TARGETS
    return _targets[row.module]


def load_all():
    """Imports whatever patching any of the versions takes, so that an import hook can do without imports."""
    import linecache  # noqa: F401  (what a warning is printed with)
    import re  # noqa: F401
    import warnings  # noqa: F401

    import tfls_patch._shape  # noqa: F401

    if sys.version_info >= (3, 8):
        import importlib.metadata  # noqa: F401
    for row in TABLE:
        targets_of(row)
