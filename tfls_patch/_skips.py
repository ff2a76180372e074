"""The record of skipped steps: what `stats` shows, and what the at-floor policy goes by.

It is written where a step is skipped, and nowhere else, so steps with finite gradients cost nothing. With the `scale`
before the skip and the `new_scale` after it::

    goes_on           = good == 0 and scale == last_scale      # no finite step since the skip before
    skipped           = skipped + 1
    in_a_row          = (in_a_row if goes_on else 0) + 1
    at_floor          = at_floor + 1 if scale <= floor else at_floor
    at_floor_in_a_row = (at_floor_in_a_row if goes_on else 0) + 1 if scale <= floor else 0
    lowest, highest   = min(lowest, new_scale), max(highest, scale)
    last_scale        = new_scale

``good``, the loss scale's own counter, is 0 after a growth as well; but a growth changes the scale.

Where it is kept depends on where the step runs, and is never a part of a checkpoint, of the optimizer's variables or of
a TF1 ``Saver``:

- TensorFlow: a row in a table of the runtime, found by its name from inside the branch of the skipped step. Nothing
  is captured by the graph around it, and nothing has to be initialized. In a ``tf.function`` of the user's own only on
  demand.
- TensorFlow compiled by XLA, which has no tables: a variable of this module's own, one more input of the step.
- Keras 3 on torch: plain numbers.
- Keras 3 on JAX, where a step is a pure function: plain numbers that a callback updates, if there is a policy to
  follow; otherwise nowhere.
"""

import collections
import contextlib
import functools
import importlib
import itertools
import sys
import threading
import weakref

from tfls_patch import _at_floor, _xla
from tfls_patch._settings import SKIP

Record = collections.namedtuple(
    "Record", ["skipped", "in_a_row", "at_floor", "at_floor_in_a_row", "lowest", "highest", "last_scale"]
)

#: What there is before the first skipped step. No scale equals the last one, so nothing goes on.
EMPTY = Record(0.0, 0.0, 0.0, 0.0, float("inf"), 0.0, -1.0)

Recorded = collections.namedtuple("Recorded", ["operations", "follow_policy"])
Recorded.__doc__ = """What is left to do about a skipped step.

Attributes:
    operations: TensorFlow operations that must run before the scale is changed.
    follow_policy: To be called when it is: warns or raises, or returns TensorFlow operations that do. The step is then
        complete, whoever catches the error.
"""

_NOTHING = Recorded([], list)

_TABLE = "tfls_patch_skipped_steps"

#: The modules of Keras with the training loop, through the versions.
_TRAINERS = (
    "tensorflow.python.keras.engine.training",
    "keras.engine.training",
    "keras.src.engine.training",
    "tf_keras.src.engine.training",
    "keras.src.backend.tensorflow.trainer",
)
_TRAINING_METHODS = ("fit", "train_on_batch")

_numbers = itertools.count(1)
_keys = weakref.WeakKeyDictionary()  # owner -> its row
_variables = weakref.WeakKeyDictionary()  # owner -> its tf.Variable
_plain = weakref.WeakKeyDictionary()  # owner -> its Record of plain numbers
_without_record = weakref.WeakSet()
_wanted = weakref.WeakSet()


class _Verdicts(threading.local):
    """The verdicts of the steps that a thread is building, innermost last."""

    def __init__(self):
        self.stack = []


_verdicts = _Verdicts()


def record(owner, scale, good, new_scale, rule):
    """Puts a skipped step on record. To be called where the step is skipped, before its scale and counter are changed.

    Args:
        owner: The object with the loss scale.
        scale: The scale of this step, a scalar tensor.
        good: Its counter of finite steps before this one, a scalar tensor or variable.
        new_scale: The scale that it will have.
        rule: A `Rule`.

    Returns:
        A `Recorded`.
    """
    backend = _backend_of(new_scale)
    if backend == "jax":
        _record_by_callback(owner, scale, good, new_scale, rule)
        return _NOTHING
    if backend != "tensorflow":
        count = _record_numbers(owner, rule, scale, good, new_scale)
        return Recorded([], lambda: _at_floor.react_now(count, rule))
    return _record_on_tensorflow(owner, scale, good, new_scale, rule)


@contextlib.contextmanager
def where(owner, finite):
    """Inside, a step of `owner` that puts itself on record is skipped where the verdict `finite` is False.

    JAX runs both branches of a condition under ``vmap``, where each member of the ensemble has a verdict of its own.
    """
    _verdicts.stack.append((owner, finite))
    try:
        yield
    finally:
        _verdicts.stack.pop()


def want(owner):
    """Asks for a record of what is traced in a ``tf.function`` from now on."""
    _wanted.add(owner)


def read(owner, evaluate):
    """Returns the `Record` of an owner, with floats.

    Args:
        owner: The object with the loss scale.
        evaluate: ``evaluate(name, function)`` returns the value of the tensor that the function makes, as an array;
            the name is one to keep it by.
    """
    found = [_plain[owner]] if owner in _plain else []
    if owner in _variables:
        found.append(Record(*map(float, _variables[owner].numpy())))
    if owner in _keys:
        store = _Table(_keys[owner])
        found.append(Record(*map(float, evaluate("%s_%d" % (_TABLE, store.key), store.read))))
    return functools.reduce(_together, found, EMPTY)


def is_kept(owner):
    """Whether steps of this owner have been built or run that put themselves on record if they are skipped."""
    return owner in _plain or owner in _variables or owner in _keys


def has_no_place(owner):
    """Whether a step of this owner was built for which there is no place for a record."""
    return owner in _without_record


def _together(one, other):
    """Adds up what was recorded in two places: in a step that XLA compiled, say, and in one that it did not."""
    if other.skipped == 0:
        return one
    return Record(
        one.skipped + other.skipped,
        max(one.in_a_row, other.in_a_row),
        one.at_floor + other.at_floor,
        max(one.at_floor_in_a_row, other.at_floor_in_a_row),
        min(one.lowest, other.lowest),
        max(one.highest, other.highest),
        other.last_scale,
    )


def _after_skip(lib, old, scale, good, new_scale, floor):
    """The rule above, for scalars of any array library."""
    goes_on = lib.logical_and(lib.equal(good, 0), lib.equal(scale, old.last_scale))
    is_at_floor = lib.less_equal(scale, floor)
    return Record(
        skipped=old.skipped + 1.0,
        in_a_row=lib.where(goes_on, old.in_a_row, 0.0) + 1.0,
        at_floor=lib.where(is_at_floor, old.at_floor + 1.0, old.at_floor),
        at_floor_in_a_row=lib.where(is_at_floor, lib.where(goes_on, old.at_floor_in_a_row, 0.0) + 1.0, 0.0),
        lowest=lib.minimum(old.lowest, new_scale),
        highest=lib.where(lib.greater(scale, old.highest), scale, old.highest),  # False for NaN
        last_scale=new_scale,
    )


# --- TensorFlow ----------------------------------------------------------------------------------------------------


def _record_on_tensorflow(owner, scale, good, new_scale, rule):
    import tensorflow as tf

    store = _store(tf, owner, rule)
    if store is None:
        return _NOTHING
    scale, new_scale = tf.cast(scale, tf.float64), tf.cast(new_scale, tf.float64)
    old = Record(*tf.unstack(store.read()))
    new = _after_skip(tf.compat.v2, old, scale, tf.convert_to_tensor(good), new_scale, rule.min_scale)
    return Recorded([store.write(tf.stack(new))], lambda: _at_floor.react(new.at_floor_in_a_row, rule))


def _store(tf, owner, rule):
    """Where the record of `owner` is kept in the step that is being built; None if there is no place."""
    if _is_in_function(tf) and not (rule.at_floor != SKIP or owner in _wanted or _is_in_fit(tf)):
        # XLA may compile a trace later on, which it cannot with a table in it; and a SavedModel may be made of it,
        # which cannot be with a variable of ours in it. So nothing is built into functions that nobody has asked for.
        _without_record.add(owner)
        return None
    if _xla.is_compiling():
        _at_floor.tell_what_xla_hides(rule)
        return _variable_of(tf, owner)
    if _xla.may_be_compiling():
        return _variable_of(tf, owner)
    return _Table(_key_of(owner))


def _is_in_function(tf):
    """Whether a ``tf.function`` is being traced; in a TF1 graph conditions are functions too, but of that graph."""
    if tf.executing_eagerly():
        return False
    with tf.init_scope():
        return tf.executing_eagerly()


def _is_in_fit(tf):
    """Whether Keras's own training loop is tracing, on the devices of this process.

    It alone runs what it traces: that is never compiled in another function, nor made a SavedModel of.
    """
    local = (tf.distribute.MirroredStrategy, tf.distribute.OneDeviceStrategy)
    if tf.distribute.has_strategy() and not isinstance(tf.distribute.get_strategy(), local):
        return False
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name in _TRAINING_METHODS and frame.f_globals.get("__name__") in _TRAINERS:
            return True
        frame = frame.f_back
    return False


def _key_of(owner):
    if owner not in _keys:
        _keys[owner] = next(_numbers)
    return _keys[owner]


class _Table(object):
    """A row of the table. The table itself is made when it is first looked up, in each runtime of its own."""

    def __init__(self, key):
        self.key = key

    def read(self):
        import tensorflow as tf

        with tf.device("/cpu:0"):
            return _lookup_ops().lookup_table_find_v2(self._handle(), self._key(), tf.constant(EMPTY, tf.float64))

    def write(self, values):
        import tensorflow as tf

        with tf.device("/cpu:0"):
            return _lookup_ops().lookup_table_insert_v2(self._handle(), self._key(), values)

    def _key(self):
        import tensorflow as tf

        return tf.constant(self.key, tf.int64)

    def _handle(self):
        import tensorflow as tf

        return _lookup_ops().mutable_hash_table_of_tensors_v2(
            tf.int64, tf.float64, shared_name=_TABLE, value_shape=[len(EMPTY)]
        )


class _Variable(object):
    """The same, in a variable."""

    def __init__(self, variable):
        self.read, self.write = variable.read_value, variable.assign


def _lookup_ops():
    # tf.raw_ops has them only from 1.15 on.
    return importlib.import_module("tensorflow.python.ops.gen_lookup_ops")


def _variable_of(tf, owner):
    if owner not in _variables:
        with tf.init_scope():
            # In TF1 nobody would initialize it, and a strategy would make one for each replica.
            if not tf.executing_eagerly() or tf.distribute.has_strategy():
                _without_record.add(owner)
                return None
            _variables[owner] = tf.Variable(EMPTY, trainable=False, dtype=tf.float64, name=_TABLE)
    return _Variable(_variables[owner])


# --- Keras 3 on other backends -------------------------------------------------------------------------------------


def _backend_of(tensor):
    home = type(tensor).__module__.split(".")[0]
    return {"tensorflow_core": "tensorflow", "jaxlib": "jax"}.get(home, home)


def _record_numbers(owner, rule, scale, good, new_scale):
    import numpy

    scale, good, new_scale = float(scale), int(good), float(new_scale)
    old = _plain.get(owner, EMPTY)
    new = Record(*map(float, _after_skip(numpy, old, scale, good, new_scale, rule.min_scale)))
    _plain[owner] = new
    return new.at_floor_in_a_row


def _record_by_callback(owner, scale, good, new_scale, rule):
    if rule.at_floor == "skip":  # a callback would keep the step out of JAX's persistent cache
        return
    reference = weakref.ref(owner)
    verdicts = [finite for decided, finite in _verdicts.stack if decided is owner]

    def call(finite, *numbers):
        if reference() is not None and not finite:
            _at_floor.react_now(_record_numbers(reference(), rule, *numbers), rule)

    _plain.setdefault(owner, EMPTY)
    sys.modules["jax"].debug.callback(call, verdicts[-1] if verdicts else False, scale, good, new_scale)
