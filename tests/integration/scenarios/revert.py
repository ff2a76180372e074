"""``revert()`` gives back the very objects of stock, `apply` replaces them again, and the status says so each time."""

import importlib
import importlib.util
import os
import sys

import surfaces
from surfaces import VERSION, tf

os.environ["TFLS_PATCH"] = "0"  # the kill switch: look at stock with the package imported
import tfls_patch
from tfls_patch import _registry


def functions():
    """Returns ``{name: the raw function that stands there now}`` for every target of this TensorFlow."""
    found = {}
    for leaf, package in _registry.LEAVES.items():
        row, _ = _registry.row_for(package, _registry.version_text(package))
        for target in _registry.targets_of(row).get(leaf, ()) if row and leaf in sys.modules else ():
            owner, names = sys.modules[leaf], target.path.split(".")
            for name in names[:-1]:
                owner = getattr(owner, name)
            found["%s.%s" % (leaf, target.path)] = vars(owner)[names[-1]]
    return found


def states():
    return {target.state for target in tfls_patch.status().targets}


surfaces.start("eager")
tf.keras.optimizers.SGD  # loads tf.keras where it is lazy
if VERSION < (2, 0):
    tf.contrib.mixed_precision
for package in ("keras", "tf_keras"):  # all that lie here, whichever of them is tf.keras
    if importlib.util.find_spec(package):
        importlib.import_module(package)

stock = functions()
assert tfls_patch.apply().patched == () and states() == {"stock", "absent"}, tfls_patch.status()
assert functions() == stock and "kill switch" in tfls_patch.status().switch

del os.environ["TFLS_PATCH"]
status = tfls_patch.apply(min_scale=0.25)
patched = functions()
assert set(status.patched) == set(stock) and states() == {"patched", "absent"}, status
for name in stock:
    assert patched[name] is not stock[name], name + " was not replaced"
    assert patched[name].__name__ == stock[name].__name__ and patched[name].__doc__ == stock[name].__doc__, name

status = tfls_patch.apply(max_scale=8)
assert (status.min_scale, status.max_scale) == ((0.25, "argument"), (8.0, "argument")), status
assert all(functions()[name] is patched[name] for name in patched), "apply() again replaced once more"

status = tfls_patch.revert()
assert not status.patched and not status.enabled and states() == {"stock", "absent"}, status
assert status.min_scale == (2.0**-14, "default") and status.max_scale == (2.0**126, "default"), status
for name, function in functions().items():
    assert function is stock[name], name + " is not the original"
tfls_patch.revert()
assert set(tfls_patch.apply().patched) == set(stock)
print("OK %d functions" % len(stock))
