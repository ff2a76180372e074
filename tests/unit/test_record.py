"""The named tuples that every start of Python makes do what those of `collections` do."""

import pickle
from collections import namedtuple

import pytest

from tfls_patch._record import Record
from tfls_patch._settings import Setting


class Pair(Record):
    """Two."""

    __slots__ = ()
    _fields = ("first", "second")


Model = namedtuple("Pair", Pair._fields)


@pytest.mark.parametrize("kind", [Pair, Model])
def test_a_record_is_a_named_tuple(kind):
    pair = kind(1, second=2)
    assert pair == (1, 2) == kind(first=1, second=2) and hash(pair) == hash((1, 2)) and isinstance(pair, tuple)
    assert (pair.first, pair.second, pair[0], pair._fields) == (1, 2, 1, ("first", "second"))
    assert repr(pair) == "Pair(first=1, second=2)" and dict(pair._asdict()) == {"first": 1, "second": 2}
    other = pair._replace(first=3)
    assert other == (3, 2) and type(other) is kind and pair == (1, 2)


@pytest.mark.parametrize("kind", [Pair, Model])
def test_bad_fields_are_refused(kind):
    for values, named in [((1,), {}), ((1, 2, 3), {}), ((1,), {"first": 2}), ((1, 2), {"third": 3})]:
        with pytest.raises(TypeError):
            kind(*values, **named)
    with pytest.raises((TypeError, ValueError)):
        kind(1, 2)._replace(third=3)
    with pytest.raises(AttributeError):
        kind(1, 2).first = 3
    with pytest.raises(AttributeError):
        kind(1, 2).third


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_record_can_be_pickled(protocol):
    setting = Setting(0.5, "argument")
    twin = pickle.loads(pickle.dumps(setting, protocol))
    assert twin == setting and type(twin) is Setting and twin.source == "argument"
