"""Another patcher on the same method, before ours and after it, and leaf modules that are reloaded."""

import importlib
import sys
import warnings

import surfaces
import wrapt
from rule import INTERVAL

from tensorflow.python.training.experimental import loss_scale as leaf

surfaces.start("eager")
STOCK = leaf.DynamicLossScale.__dict__["update"]
INF, FLOOR = float("inf"), 0.25
seen = []


def note(wrapped, instance, args, kwargs):
    """What a tracing tool does."""
    seen.append(type(instance).__name__)
    return wrapped(*args, **kwargs)


def wrap():
    wrapt.wrap_function_wrapper(leaf, "DynamicLossScale.update", note)
    return leaf.DynamicLossScale.__dict__["update"]


def told_by(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(each.message) for each in caught if issubclass(each.category, tfls_patch.TflsPatchWarning)]


def value_of(scale):
    return float(surfaces.tf.convert_to_tensor(scale()).numpy())


def lowest_scale():
    """Where a loss scale that starts at 2 comes to a stand."""
    scale = surfaces.loss_scales().DynamicLossScale(2.0, INTERVAL)
    for _ in range(6):
        scale.update([surfaces.tf.constant(INF)])
    return value_of(scale)


# Before ours: it may be anything, so all of this TensorFlow is left as it is.
theirs = wrap()
import tfls_patch

try:
    tfls_patch.apply(min_scale=FLOOR)
except tfls_patch.UnsupportedVersionError as error:
    assert "DynamicLossScale.update" in str(error) and "remove one of the two" in str(error), error
else:
    surfaces.fail("the wrapper was taken for stock's function")
assert leaf.DynamicLossScale.__dict__["update"] is theirs and lowest_scale() == 1.0 and seen
leaf.DynamicLossScale.update = STOCK

# After ours: both do their work, and ours is not put around theirs once more.
assert tfls_patch.apply(min_scale=FLOOR).patched and lowest_scale() == FLOOR
del seen[:]
theirs = wrap()
assert lowest_scale() == FLOOR and seen == ["DynamicLossScale"] * 6, seen
assert not told_by(lambda: tfls_patch.apply(min_scale=FLOOR))
assert leaf.DynamicLossScale.__dict__["update"] is theirs
told = told_by(tfls_patch.revert)
assert len(told) == 1 and "DynamicLossScale.update was replaced by something else" in told[0], told
assert leaf.DynamicLossScale.__dict__["update"] is theirs
leaf.DynamicLossScale.update = STOCK

# A reloaded module has new classes; these are patched, and taken back, as the first ones were.
assert tfls_patch.apply(min_scale=FLOOR).patched
before = leaf.DynamicLossScale
importlib.reload(leaf)
assert leaf.DynamicLossScale is not before
tfls_patch.apply(min_scale=FLOOR)
name = "tensorflow.python.training.experimental.loss_scale.DynamicLossScale.update"
assert name in tfls_patch.status().patched
scale = leaf.DynamicLossScale(2.0, INTERVAL)
for _ in range(6):
    scale.update([surfaces.tf.constant(INF)])
assert value_of(scale) == FLOOR, scale
assert not told_by(tfls_patch.revert)
assert leaf.DynamicLossScale.__dict__["update"].__module__ == leaf.__name__ and name not in tfls_patch.status().patched
assert sys.modules[leaf.__name__] is leaf
print("OK")
