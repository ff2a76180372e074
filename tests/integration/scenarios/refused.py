"""What the patcher does not know it leaves alone, and says so: usage ``refused.py foreign|parameters|newer|older``."""

import sys
import warnings

import surfaces
from surfaces import tf

from tensorflow.python.framework import versions
from tensorflow.python.training.experimental import loss_scale as leaf

case = sys.argv[1]
surfaces.start("eager")
update, fixed = leaf.DynamicLossScale.update, leaf.FixedLossScale.__init__
if case == "foreign":
    # Somebody has replaced the method by hand, as the public report's author did.
    def mine(self, grads):
        return update(self, grads)

    leaf.DynamicLossScale.update = mine
elif case == "parameters":
    source = "def update(self, grads, extra=None):\n    return None\n"
    exec(compile(source, leaf.__file__, "exec"), leaf.__dict__)
    leaf.DynamicLossScale.update = leaf.__dict__["update"]
elif case == "newer":
    versions.VERSION = "2.99.1"
elif case == "older":
    versions.VERSION = "1.13.2"
standing = leaf.DynamicLossScale.update

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import tfls_patch
told = [str(each.message) for each in caught if issubclass(each.category, tfls_patch.TflsPatchWarning)]

if case == "newer":
    # The shape is the known one: patched, with one warning. Only the newest TensorFlow has the newest shape.
    if surfaces.VERSION >= (2, 16):
        assert len(told) == 1 and "2.99.1 is newer" in told[0], told
        assert leaf.DynamicLossScale.update is not standing
        tfls_patch.apply()
    print("OK")
    sys.exit()

assert len(told) == 1 and "left unchanged" in told[0], told
assert leaf.DynamicLossScale.update is standing and leaf.FixedLossScale.__init__ is fixed, "half patched"
refused = [target for target in tfls_patch.status().targets if target.state == "refused"]
assert refused or case == "older", tfls_patch.status()
before = tfls_patch.status()
try:
    tfls_patch.apply(min_scale=0.125)
except tfls_patch.UnsupportedVersionError as error:
    text = str(error)
    assert error.requested in text and error.found in text and error.advice in text, text
    expected = {"foreign": "the module __main__", "parameters": "extra", "older": "1.13.2"}[case]
    assert expected in text and "tensorflow" in text, text
else:
    surfaces.fail("apply() accepted it")
assert leaf.DynamicLossScale.update is standing and leaf.FixedLossScale.__init__ is fixed
assert tfls_patch.status().min_scale == before.min_scale, "a failed apply() changed the bounds"
if case == "foreign":
    leaf.DynamicLossScale.update = update
    assert leaf.DynamicLossScale.__name__ and tfls_patch.apply(min_scale=0.125).patched
    assert leaf.DynamicLossScale.update is not update
print("OK")
