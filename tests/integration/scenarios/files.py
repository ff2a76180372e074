"""Files of every format: usage ``files.py write|read stock|patched eager|graph FOLDER...``, a process for each.

`write` trains to a low scale, saves, notes what the files hold, trains on and notes that too, in FOLDER/written.json.
`read` loads each file into a fresh object, checks that training goes on by the reader's own rule from what came back,
and notes it in FOLDER/read by stock.json or FOLDER/read by patched.json. Whoever has started the two compares: between
writers and readers, and between versions of TensorFlow.
"""

import json
import os
import sys
import warnings

import numpy as np

import surfaces
from rule import INTERVAL, check, same
from surfaces import KERAS_3, VERSION, tf, tf1

#: Where the scale and the counter stand, in Keras 3, in Keras 2, and in ``DynamicLossScale``.
NAMES = [
    ("dynamic_scale", "step_counter"),
    ("current_loss_scale", "counter"),
    ("_current_loss_scale", "_num_good_steps"),
]
INF, NAN = float("inf"), float("nan")
FLOOR, CEILING = 2.0**-5, 2.0**126
#: From 16 to 2^-3 (or to stock's 1), and two good steps: the next one makes it grow, if the counter is kept.
BEFORE = [INF] * 7 + [1.0] * 2
AFTER = [1.0, INF, 1.0, 1.0, 1.0, INF, INF, INF, INF, 1.0]
#: What only stock brings into a file, and what the first step makes of it; the weights must not notice.
BAD_SCALES = {"0": (0.0, FLOOR), "inf": (INF, CEILING), "nan": (NAN, FLOOR)}
WRITTEN, READER = 16.0, 8.0  # initial scales; they differ, so that one that was not restored is seen


class Checkpoint(object):
    """``tf.train.Checkpoint`` of one surface in eager execution, or ``Saver`` of one in a graph."""

    def __init__(self, surface_of, folder):
        self._surface_of, self._path = surface_of, os.path.join(folder, "state")

    def new(self, initial):
        self._surface = self._surface_of(initial, INTERVAL)
        return self._surface.state()

    def train(self, script):
        return [self._step(m) for m in script]

    def _step(self, m):
        self._surface.step(m)
        return self._surface.state()

    def set_scale(self, value):
        self._surface.set_scale(value)

    def state(self):
        return self._surface.state()

    def save(self):
        self._prefix = self._checkpoint().save(self._path)

    def load(self):
        path = tf.train.latest_checkpoint(os.path.dirname(self._path))
        self._checkpoint().restore(path).expect_partial() if VERSION >= (2, 0) else self._checkpoint().restore(path)

    def names(self):
        """What is in the file."""
        path = tf.train.latest_checkpoint(os.path.dirname(self._path))
        return sorted((name, list(shape)) for name, shape in tf.train.list_variables(path))

    def _checkpoint(self):
        return checkpoint_of(self._surface)


def checkpoint_of(surface, **more):
    """A ``tf.train.Checkpoint`` of what a surface trains."""
    more["weight"] = surface.w.value if KERAS_3 and hasattr(surface.w, "_value") else surface.w
    owner = getattr(surface, "optimizer", surface.owner)
    if hasattr(owner, "_trackable_children") or hasattr(owner, "_checkpoint_dependencies"):
        return tf.train.Checkpoint(owner=owner, **more)
    # Some Keras 3 are nothing that TensorFlow tracks, but their variables are.
    scale, counter = (variable.value for variable in surface.variables())
    return tf.train.Checkpoint(scale=scale, counter=counter, **more)


class Saver(Checkpoint):
    """``tf.compat.v1.train.Saver`` of a graph."""

    def save(self):
        with self._surface.graph.as_default():
            tf1.train.Saver().save(self._surface.session, self._path)

    def load(self):
        with self._surface.graph.as_default():
            path = tf.train.latest_checkpoint(os.path.dirname(self._path))
            tf1.train.Saver().restore(self._surface.session, path)


class Model(object):
    """A compiled Keras model in one of Keras's formats; momentum makes the optimizer have a state of its own."""

    def __init__(self, ending, folder):
        self._path = os.path.join(folder, "model" + ending)

    def new(self, initial):
        dense = tf.keras.layers.Dense(
            1, use_bias=False, kernel_initializer=tf.keras.initializers.Constant(1.0), input_shape=(1,)
        )
        self._model = tf.keras.Sequential([dense, tf.keras.layers.Activation("linear", dtype="float32")])
        inner = tf.keras.optimizers.SGD(2.0**-6, momentum=0.5)
        self._model.compile(surfaces.loss_scaled(inner, initial, INTERVAL), loss="mse")

    def share(self, other):
        self._model = other._model

    def train(self, script):
        """Fits, a batch for each step; untraced, which is quicker for a few."""
        states = []
        self._model.run_eagerly = True
        noting = tf.keras.callbacks.LambdaCallback(on_batch_end=lambda batch, logs: states.append(self.state()))
        x = np.array(script, np.float32).reshape(-1, 1)
        self._model.fit(x, np.zeros_like(x), batch_size=1, shuffle=False, verbose=0, callbacks=[noting])
        return states

    def fit(self, data, **options):
        """Fits as Keras does it by itself."""
        self._model.fit(data, shuffle=False, verbose=0, **options)

    def state(self):
        optimizer, weight = self._model.optimizer, float(self._model.get_weights()[0].reshape(()))
        owner = optimizer if hasattr(optimizer, "dynamic_scale") else getattr(optimizer, "_loss_scale", None)
        for names in NAMES:
            if hasattr(owner, names[0]):
                scale, good = (float(tf.keras.backend.get_value(getattr(owner, name))) for name in names)
                return scale, int(good), weight
        return None, None, weight  # it came back without loss scaling

    def save(self):
        self._model.save(self._path)

    def load(self):
        self._model = tf.keras.models.load_model(self._path)

    def names(self):
        return []


class Weights(Model):
    """``save_weights``, in the form that its ending asks for."""

    def save(self):
        self._model.save_weights(self._path)

    def load(self):
        self._model.load_weights(self._path)


class SavedModel(Model):
    """A SavedModel of Keras 3, which Keras itself does not load: the variables come back into a model like it."""

    def save(self):
        tf.saved_model.save(self._model, self._path)

    def load(self):
        self._model.optimizer.build(self._model.trainable_variables)
        tf.train.Checkpoint(root=self._model).restore(self._variables()).expect_partial()

    def names(self):
        return sorted((name, list(shape)) for name, shape in tf.train.list_variables(self._variables()))

    def _variables(self):
        return os.path.join(self._path, "variables", "variables")


def formats(mode):
    """Returns ``{name: function(folder) -> one of the above}``."""
    found, kind = {}, Saver if mode == "graph" else Checkpoint
    for name, surface_of in surfaces.surfaces(mode).items():
        if not name.endswith("function"):
            found["%s, %s" % (kind.__name__, name)] = _bound(kind, surface_of)
    if mode == "eager" and VERSION >= (2, 1):
        for ending in [".h5"] + ([".keras"] if VERSION >= (2, 12) else []) + ([] if KERAS_3 else [""]):
            found["Model, " + (ending or "SavedModel")] = _bound(Model, ending)
        for ending in [".weights.h5"] + ([] if KERAS_3 else [".tf"]):
            found["Weights, " + ending] = _bound(Weights, ending)
        if KERAS_3:
            found["Model, SavedModel"] = _bound(SavedModel, "")
    return found


def in_order(found):
    """Sorted, with .h5 last: where Keras 3 cannot load such a model, it trains the next one it loads by other rules."""
    return sorted(found.items(), key=lambda item: (item[0].endswith(".h5"), item[0]))


def _bound(kind, first):
    return lambda folder: kind(first, folder)


def write(mode, folder):
    written, model = {}, None
    for name, new in in_order(formats(mode)):
        file = _folder(folder, name, new)
        if isinstance(file, Model) and model:  # one model is saved in all formats
            file.share(model)
        else:
            file.new(WRITTEN)
            file.train(BEFORE)
        model = file if isinstance(file, Model) else model
        written[name] = note = {"state": file.state()}
        try:
            file.save()
            note["names"] = file.names()
        except Exception as error:
            note["error"] = type(error).__name__
        if isinstance(file, Checkpoint):
            note["after"] = file.train(AFTER)
            write_bad_scales(name, new, folder)
    after = model and model.train(AFTER)
    for note in written.values():
        note.setdefault("after", after)
    _note(folder, "written", written)


def write_bad_scales(name, new, folder):
    for bad, (value, _) in BAD_SCALES.items():
        file = _folder(folder, name + ", " + bad, new)
        file.new(WRITTEN)
        file.set_scale(value)
        file.save()


def read(mode, folder, is_patched):
    came_back = {}
    for name, new in in_order(formats(mode)):
        if not os.path.isdir(_place(folder, name)):
            continue  # the version that wrote does not have it
        file = new(_place(folder, name))
        file.new(READER)
        try:
            file.load()
        except Exception as error:
            came_back[name] = {"error": type(error).__name__}
            continue
        came_back[name] = note = {"state": file.state()}
        try:
            note["after"] = file.train(AFTER)
        except Exception as error:
            note["error"] = type(error).__name__
        else:
            check_rule(name, file, note, is_patched)
        if isinstance(file, Checkpoint) and is_patched:
            check_bad_scales(name, new, folder)
    _note(folder, "read by patched" if is_patched else "read by stock", came_back)


def check_rule(name, file, note, is_patched):
    """Whatever came back, the reader's own rule goes on from there."""
    if note["state"][0] is None:
        return
    is_keras_3 = KERAS_3 and (name == "Checkpoint, keras 3 eager" or isinstance(file, Model))
    floor = FLOOR if is_patched else 0.0 if is_keras_3 else 1.0
    expected, seen = steps_from(note["state"], floor, FLOOR if is_patched else 0.0), note["after"]
    if isinstance(file, Model):  # its weights follow another rule, and are compared by whoever has started us
        expected, seen = [state[:2] for state in expected], [state[:2] for state in seen]
    check(same(seen, expected), name, "from", note["state"], "to", seen, "expected", expected)


def steps_from(state, floor, floor_of_growth):
    """The states after each step of AFTER. Stock does not look at its floor when the scale grows."""
    (scale, good, weight), states = state, []
    for m in AFTER:
        if m == 1.0:
            good, weight = good + 1, weight - surfaces.RATE
            if good >= INTERVAL:
                good, scale = 0, max(scale * 2, floor_of_growth)
        else:
            good, scale = 0, max(scale / 2, floor)
        states.append((scale, good, weight))
    return states


def check_bad_scales(name, new, folder):
    """0, inf and NaN in a file: the first step is skipped and brings the scale inside, the second is taken."""
    for bad, (value, expected) in BAD_SCALES.items():
        file = new(_place(folder, name + ", " + bad))
        file.new(READER)
        file.load()
        check(
            same([file.state()[0]], [value]) or np.isnan(value) and np.isnan(file.state()[0]), name, bad, file.state()
        )
        states = file.train([1.0, 1.0])
        check(same(states, [(expected, 0, 1.0), (expected, 1, 1.0 - surfaces.RATE)]), name, bad, states)


def _folder(folder, name, new):
    os.makedirs(_place(folder, name))
    return new(_place(folder, name))


def _place(folder, name):
    return os.path.join(folder, "".join(c if c.isalnum() or c in ".-" else "_" for c in name))


def _note(folder, name, notes):
    with open(os.path.join(folder, name + ".json"), "w") as file:
        json.dump({"version": tf.__version__, "notes": notes}, file, indent=1, sort_keys=True)


def main(what, who, mode, *folders):
    surfaces.start(mode)
    warnings.simplefilter("ignore")
    if mode == "eager" and VERSION >= (2, 1):
        mixed_precision = tf.keras.mixed_precision
        set_policy = getattr(mixed_precision, "set_global_policy", None) or mixed_precision.experimental.set_policy
        set_policy("mixed_float16")
    if who == "patched":
        import tfls_patch

        tfls_patch.apply(min_scale=FLOOR, max_scale=CEILING)
    for folder in folders:
        if what == "write":
            os.makedirs(folder)
            write(mode, folder)
        else:
            read(mode, folder, who == "patched")
    print("OK")


if __name__ == "__main__":
    main(*sys.argv[1:])
