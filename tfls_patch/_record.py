"""Named tuples without `collections`: its import, and the classes that it makes, took half of what we add to a start.

Only for what every start of Python needs; elsewhere ``collections.namedtuple`` serves.
"""

from _operator import itemgetter  # operator itself takes longer to import


class Record(tuple):
    """A tuple whose items have names; a subclass lists them in ``_fields`` and has ``__slots__ = ()``.

    Example::

        class Setting(Record):
            __slots__ = ()
            _fields = ("value", "source")
    """

    __slots__ = ()
    _fields = ()

    def __init_subclass__(cls, **options):
        super(Record, cls).__init_subclass__(**options)
        for index, name in enumerate(cls._fields):
            setattr(cls, name, property(itemgetter(index)))

    def __new__(cls, *values, **named):
        """Takes the items in order, by name, or the first ones in order and the rest by name."""
        missing = cls._fields[len(values) :]
        if len(values) > len(cls._fields) or set(named) != set(missing):
            raise TypeError("%s takes %s" % (cls.__name__, ", ".join(cls._fields)))
        return tuple.__new__(cls, values + tuple(named[name] for name in missing))

    def __getnewargs__(self):
        return tuple(self)

    def __repr__(self):
        return "%s(%s)" % (type(self).__name__, ", ".join("%s=%r" % pair for pair in self._asdict().items()))

    def _asdict(self):
        return dict(zip(self._fields, self))

    def _replace(self, **new):
        return type(self)(**dict(self._asdict(), **new))
