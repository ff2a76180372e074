"""What people do with optimizers goes on working: old instances, subclasses, config, pickle, deepcopy, isinstance."""

import copy
import pickle
import sys
import warnings

import numpy as np

import surfaces
from surfaces import KERAS_3, VERSION, tf

INF = float("inf")
NAME = ("keras 3" if KERAS_3 else "keras") + " eager"


def make(initial=2.0):
    return surfaces.surfaces("eager")[NAME](initial, 2000)


def steps(surface, count, m=INF):
    for _ in range(count):
        surface.step(m)
    return surface.state()


def nameless(config):
    """A config without the running numbers that Keras 3 gives to names."""
    return {
        key: nameless(value) if isinstance(value, dict) else value for key, value in config.items() if key != "name"
    }


surfaces.start("eager")
old, old_used = make(), make()
steps(old_used, 1, 1.0)
stock_class, stock_isinstance = type(old.optimizer), isinstance(old.optimizer, type(old.optimizer))
if VERSION >= (2, 0):
    stock_config = old.optimizer.get_config()

import tfls_patch

tfls_patch.apply(min_scale=2.0**-6)

# Instances from before obey.
assert steps(old, 3)[0] == 0.25 and steps(old_used, 10)[0] == 2.0**-6, (old.state(), old_used.state())
assert steps(old, 1, 1.0)[2] == 1.0 - surfaces.RATE

# A subclass whose own scaling is smaller than the scale it keeps: the published workaround for the floor, written anew.
if (2, 4) <= VERSION and not KERAS_3:
    DIVISOR = 1024.0

    class Smaller(stock_class):
        def get_scaled_loss(self, loss):
            return super(Smaller, self).get_scaled_loss(loss) / DIVISOR

        def get_unscaled_gradients(self, grads):
            return [None if g is None else g * DIVISOR for g in super(Smaller, self).get_unscaled_gradients(grads)]

    smaller = Smaller(surfaces.keras_sgd(), initial_scale=4.0)
    assert float(smaller.get_scaled_loss(tf.constant(1.0))) == 4.0 / DIVISOR  # scaled once
    assert float(smaller.get_unscaled_gradients([tf.constant(4.0 / DIVISOR)])[0]) == 1.0
    assert isinstance(smaller, stock_class)

# Config: the keys and values of stock, in both directions.
if VERSION >= (2, 0):
    new = make()
    assert nameless(new.optimizer.get_config()) == nameless(stock_config), (new.optimizer.get_config(), stock_config)
    rebuilt = type(new.optimizer).from_config(new.optimizer.get_config())
    assert type(rebuilt) is type(new.optimizer) and "tfls" not in str(rebuilt.get_config())
    assert type(make().optimizer) is stock_class and stock_isinstance

# deepcopy and own bounds: a copy keeps them, and they win over the process-wide ones.
if "DynamicLossScale eager" in surfaces.surfaces("eager"):
    scale = surfaces.loss_scales().DynamicLossScale(8.0, 2000)
    tfls_patch.set_bounds(scale, min_scale=4.0, max_scale=16.0)
    holder = pickle.loads(pickle.dumps(vars(scale)["_tfls_patch_bounds"]))
    assert holder == (4.0, 16.0) and type(holder) is tuple
    assert "tfls" not in str(scale.get_config())
    try:
        twin = copy.deepcopy(scale)
    except Exception:
        twin = None  # stock cannot copy it in this version
    for each in [scale] + ([twin] if twin is not None else []):
        for _ in range(5):
            each.update([tf.constant(INF)])
        assert float(each().numpy()) == 4.0, float(each().numpy())

surface = make(2.0)
tfls_patch.set_bounds(surface.optimizer, min_scale=0.5)
assert steps(surface, 5)[0] == 0.5
# Bounds that cross, in one call or with those set before, are refused and change nothing.
for crossed in ({"max_scale": 0.25}, {"min_scale": 8, "max_scale": 4}):
    try:
        tfls_patch.set_bounds(surface.optimizer, **crossed)
    except ValueError as error:
        assert "min_scale" in str(error) and "max_scale" in str(error), error
    else:
        surfaces.fail("%s was taken" % crossed)
tfls_patch.apply(min_scale=1e-3)
assert steps(surface, 5)[0] == 0.5, "own bounds must win over apply()"
assert steps(make(2.0), 20)[0] == np.float32(1e-3)
config_with_bounds = surface.optimizer.get_config() if VERSION >= (2, 0) else {}
assert "tfls" not in str(config_with_bounds)
# Optimizers of Keras 3.0 cannot be in a tf.train.Checkpoint.
if VERSION >= (2, 0) and (not KERAS_3 or hasattr(surface.optimizer, "_trackable_children")):
    path = tf.train.Checkpoint(optimizer=surface.optimizer).save("./checkpoint")
    assert not any("tfls" in name for name, _ in tf.train.list_variables(path))

# A copy of an optimizer keeps them, where stock can copy it.


def copied(optimizer):
    try:
        return copy.deepcopy(optimizer)
    except Exception:
        return None


twin = copied(surface.optimizer)
if twin is not None and hasattr(twin, "_loss_scale"):
    assert vars(twin._loss_scale)["_tfls_patch_bounds"] == (0.5, None)
elif twin is not None:
    assert vars(twin)["_tfls_patch_bounds"] == (0.5, None) and "tfls" not in str(twin.get_config())
    twice = copy.deepcopy({"a": twin, "b": twin})
    assert twice["a"] is twice["b"] and vars(twice["a"])["_tfls_patch_bounds"] == (0.5, None)
    assert b"tfls" not in pickle.dumps(twin)
assert (twin is None) == (copied(make(2.0).optimizer) is None), "one without bounds can be copied"

# A second call sets the bound that it names and leaves the other.
both = make(2.0)
tfls_patch.set_bounds(both.optimizer, min_scale=0.5)
tfls_patch.set_bounds(both.optimizer, max_scale=1.0)
assert steps(both, 9)[0] == 0.5, "the floor was forgotten"
tfls_patch.set_bounds(both.optimizer, min_scale=0.25)
both.set_scale(64.0)
assert steps(both, 1)[0] == 1.0, "the ceiling was forgotten"

for wrong in (surfaces.keras_sgd(), object(), None, 3.0):
    try:
        tfls_patch.set_bounds(wrong, min_scale=0.5)
    except TypeError as error:
        assert "optimizer" in str(error) and type(wrong).__name__ in str(error), error
    else:
        surfaces.fail("set_bounds(%r) was accepted" % (wrong,))

# Bounds that a trace cannot get rid of are told of, once they differ, and only then.
traced = surfaces.surfaces("eager")[NAME.replace("eager", "function")](8.0, 2000)
steps(traced, 1)


def warnings_of(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [w for w in caught if issubclass(w.category, tfls_patch.TflsPatchWarning)]


assert not warnings_of(lambda: tfls_patch.apply(min_scale=1e-3))
told = warnings_of(lambda: tfls_patch.apply(min_scale=1e-2))
assert len(told) == 1 and "traced" in str(told[0].message) and told[0].filename == __file__, [str(w) for w in told]
assert steps(traced, 30)[0] == np.float32(1e-3), "a trace keeps its bounds"
del traced
assert not warnings_of(lambda: tfls_patch.apply(min_scale=1e-1)), "the trace is gone"
print("OK")
