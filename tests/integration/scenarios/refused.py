"""What the patcher does not know it leaves alone, and says so."""

import warnings

import surfaces

from tensorflow.python.framework import versions
from tensorflow.python.training.experimental import loss_scale as leaf

surfaces.start("eager")
UPDATE, FIXED, VERSION = leaf.DynamicLossScale.update, leaf.FixedLossScale.__init__, versions.VERSION


def mine(self, grads):
    """Somebody has replaced the method by hand, as the author of the public report did."""
    return UPDATE(self, grads)


def with_more_parameters():
    """A build of TensorFlow where the method takes something new."""
    exec(compile("def update(self, grads, extra=None):\n    return None\n", leaf.__file__, "exec"), leaf.__dict__)
    return leaf.__dict__.pop("update")


def told_by(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(each.message) for each in caught if "tfls_patch" in str(each.filename)]


def import_it():
    global tfls_patch
    import tfls_patch


leaf.DynamicLossScale.update = mine
told = told_by(import_it)
assert len(told) == 1 and "left unchanged" in told[0] and "the module __main__" in told[0], told

for standing, version, expected in [
    (mine, VERSION, "the module __main__"),
    (with_more_parameters(), VERSION, "extra"),
    (UPDATE, "1.13.2", "1.13.2"),
    (UPDATE, "no version", "no version"),
]:
    leaf.DynamicLossScale.update, versions.VERSION = standing, version
    try:
        tfls_patch.apply(min_scale=0.125)
    except tfls_patch.UnsupportedVersionError as error:
        text = str(error)
        assert error.requested in text and error.found in text and error.advice in text, text
        assert expected in text and "tensorflow" in text, text
    else:
        surfaces.fail("apply() accepted " + expected)
    assert leaf.DynamicLossScale.update is standing and leaf.FixedLossScale.__init__ is FIXED, "half patched"
    assert tfls_patch.status().min_scale == (2.0**-14, "default"), "a failed apply() changed the bounds"
    states = {target.name: target.state for target in tfls_patch.status().targets}
    assert "patched" not in {state for name, state in states.items() if name.startswith("tensorflow.")}, states

leaf.DynamicLossScale.update, versions.VERSION = UPDATE, VERSION
assert tfls_patch.apply(min_scale=0.125).patched and leaf.DynamicLossScale.update is not UPDATE
tfls_patch.revert()

# A newer TensorFlow of a known shape is patched, with one warning. Only the newest ones have the newest shape.
if surfaces.VERSION >= (2, 16):
    versions.VERSION = "2.99.1"
    told = told_by(tfls_patch.apply)
    assert len(told) == 1 and "2.99.1 is newer" in told[0], told
    assert leaf.DynamicLossScale.update is not UPDATE and not told_by(tfls_patch.apply)
print("OK")
