"""The settings of the loss scale: their limits, where each came from, and the environment variables.

Precedence is argument > environment > default. Nothing here imports TensorFlow, wrapt or packaging.
"""

import os

from tfls_patch._record import Record

#: The last scale whose reciprocal is a normal float32: beyond it 1 / scale is flushed to 0 and updates vanish.
LARGEST_SCALE = 2.0**126

#: The smallest normal float32: values below it are flushed to 0 by most float kernels.
SMALLEST_SCALE = 2.0**-126

#: A power of two, so scaling stays exact; the smallest normal float16, with a reciprocal that float16 still holds.
DEFAULT_MIN_SCALE = 2.0**-14
DEFAULT_MAX_SCALE = LARGEST_SCALE

ALLOWED = "a number from 2**-126 (1.18e-38) to 2**126 (8.51e+37)"

SWITCH_VARIABLE = "TFLS_PATCH"
STRICT_VARIABLE = "TFLS_PATCH_STRICT"
TRUE_WORDS = frozenset(["1", "true", "yes", "on", "y", "t"])
FALSE_WORDS = frozenset(["0", "false", "no", "off", "n", "f"])
#: What may stand around a value. Not all that Unicode calls a space: a no-break space is a slip of the pen.
SPACES = " \t\n\r\f\v"

#: Values of ``Setting.source``.
ARGUMENT, ENVIRONMENT, DEFAULT = "argument", "environment", "default"

#: How an at-floor policy may react.
SKIP, WARN, RAISE = POLICIES = ("skip", "warn", "raise")


class Rule(Record):
    """What rules a loss scale: the settings of `apply`, as plain values.

    Attributes:
        min_scale: The floor, a Python float that float32 holds exactly.
        max_scale: The ceiling, likewise.
        regrow_steps: The longest growth interval while the scale is below 1, in steps; 0 if there is none.
        at_floor: ``skip``, ``warn`` or ``raise``: what happens when the floor does not help.
        patience: After how many non-finite steps in a row at the floor.
    """

    __slots__ = ()
    _fields = ("min_scale", "max_scale", "regrow_steps", "at_floor", "patience")


class Setting(Record):
    """A value and where it came from: ``argument``, ``environment`` or ``default``."""

    __slots__ = ()
    _fields = ("value", "source")


class Settings(Rule):
    """The process-wide rule as a `Setting` each: the value, and its source."""

    __slots__ = ()

    @property
    def rule(self):
        """The values alone."""
        return Rule(*(setting.value for setting in self))

    @classmethod
    def from_environment(cls, environ=None):
        """Returns ``(settings, complaints)``: what the variables say, and a sentence for each that says nonsense.

        A variable that cannot be used is left out of account, so start-up never fails on it.
        """
        environ = os.environ if environ is None else environ
        complaints = []
        found = cls(*(_from_variable(environ, name, complaints) for name in cls._fields))
        low, high = found.min_scale, found.max_scale
        if low.value > high.value:
            complaints.append(
                "%s=%g (%s) is above %s=%g (%s); both were ignored"
                % ((variable_of("min_scale"),) + low + (variable_of("max_scale"),) + high)
            )
            found = found._replace(min_scale=_default("min_scale"), max_scale=_default("max_scale"))
        word = _word(environ.get(STRICT_VARIABLE, ""))
        if isinstance(word, str):
            complaints.append("%s=%s was ignored: it must be 1 or 0" % (STRICT_VARIABLE, shown(word)))
        return found, complaints

    def replaced(self, **arguments):
        """Returns these settings with the arguments that are given, and not None, in place of the old values.

        Raises:
            TypeError: an argument is not of its type.
            ValueError: an argument is out of range, or the floor would be above the ceiling.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        new = self._replace(
            **{name: Setting(_KINDS[name].check(name, value), ARGUMENT) for name, value in given.items()}
        )
        check_order(new.min_scale.value, new.max_scale.value)
        return new


def checked_scale(name, value):
    """Returns `value` as the nearest float32, as a Python float.

    Args:
        name: The argument's name, for the message.
        value: An int, float or NumPy scalar; finite, 2**-126 <= value <= 2**126.

    Raises:
        TypeError: not a real number (bool, str, None, tensor, array ...).
        ValueError: NaN, infinite or out of range.
    """
    import numbers  # here, as `struct` below: what is said by nobody needs no check, and Python starts sooner

    # NumPy registers its scalars as numbers.Real; bool is one too by inheritance, but True is no scale.
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError("%s must be %s, not %s of type %s" % (name, ALLOWED, shown(value), type(value).__name__))
    try:
        number = _to_float32(float(value))
    except OverflowError:  # an int beyond float64, or a float64 beyond float32
        number = float("inf")
    if not SMALLEST_SCALE <= number <= LARGEST_SCALE:  # False for NaN as well
        raise ValueError("%s must be %s, got %s" % (name, ALLOWED, shown(value)))
    return number


def _checked_steps(name, value):
    """Returns a number of steps as an int.

    Raises:
        TypeError: not a whole number.
        ValueError: too small, or too large for a 32-bit counter.
    """
    import numbers

    allowed, lowest = _KINDS[name].allowed, _KINDS[name].lowest
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError("%s must be %s, not %s of type %s" % (name, allowed, shown(value), type(value).__name__))
    if not lowest <= value < 2**31:
        raise ValueError("%s must be %s, got %s" % (name, allowed, shown(value)))
    return int(value)


def _checked_policy(name, value):
    if not isinstance(value, str):
        raise TypeError("%s must be %s, not %s" % (name, _KINDS[name].allowed, shown(value)))
    if value not in POLICIES:
        raise ValueError("%s must be %s, got %s" % (name, _KINDS[name].allowed, shown(value)))
    return str(value)


def _ascii_lower(text):
    """Lower case, for ASCII only: the Kelvin sign becomes a plain k otherwise."""
    return text.lower() if all(ord(character) < 128 for character in text) else text


class _Kind(Record):
    """What there is to know of one setting.

    Attributes:
        default: Its value if nothing is said.
        check: ``check(name, value)`` returns the value to use, or raises ``TypeError`` or ``ValueError``.
        parse: Reads the text of its variable; may raise ``ValueError``.
        allowed: What it must be, in words.
        example: A good text for its variable.
        lowest: The least number of steps.
    """

    __slots__ = ()
    _fields = ("default", "check", "parse", "allowed", "example", "lowest")


_KINDS = {
    "min_scale": _Kind(DEFAULT_MIN_SCALE, checked_scale, float, ALLOWED, "1e-4", None),
    "max_scale": _Kind(DEFAULT_MAX_SCALE, checked_scale, float, ALLOWED, "65536", None),
    "regrow_steps": _Kind(0, _checked_steps, int, "a whole number of steps, 1 or more, or 0 for off", "50", 0),
    "at_floor": _Kind(SKIP, _checked_policy, _ascii_lower, "one of %s" % ", ".join(map(repr, POLICIES)), "warn", None),
    "patience": _Kind(100, _checked_steps, int, "a whole number of steps, 1 or more", "1000", 1),
}


def check_order(min_scale, max_scale):
    """Raises ``ValueError`` if the floor is above the ceiling."""
    if min_scale > max_scale:
        raise ValueError(
            "min_scale must not be above max_scale: got min_scale=%r with max_scale=%r in force; "
            "lower min_scale or raise max_scale in the same call" % (min_scale, max_scale)
        )


def variable_of(name):
    """Returns the environment variable that sets the argument `name`: ``min_scale`` -> ``TFLS_PATCH_MIN_SCALE``."""
    return "%s_%s" % (SWITCH_VARIABLE, name.upper())


#: Every environment variable that this package reads.
VARIABLES = (SWITCH_VARIABLE,) + tuple(map(variable_of, Rule._fields)) + (STRICT_VARIABLE,)


def switch(environ=None):
    """Returns what ``TFLS_PATCH`` says: True, False, None (unset or empty), or its text if that is no known word."""
    return _word((os.environ if environ is None else environ).get(SWITCH_VARIABLE, ""))


def killed(environ=None):
    """Whether ``TFLS_PATCH`` is 0, false, no or off: the kill switch, which explicit calls obey too."""
    return switch(environ) is False


def has_other_workers():
    """Whether this process is one of several that TensorFlow trains with."""
    return "TF_CONFIG" in os.environ


def strict(environ=None):
    """Whether ``TFLS_PATCH_STRICT`` asks that importing an unsupported TensorFlow fail."""
    return _word((os.environ if environ is None else environ).get(STRICT_VARIABLE, "")) is True


def export(settings, environ=None):
    """Tells child processes what is in force here: they inherit the variables, and arm if this package is installed."""
    environ = os.environ if environ is None else environ
    if killed(environ):
        return
    environ[SWITCH_VARIABLE] = "1"
    for name, value in settings.rule._asdict().items():
        environ[variable_of(name)] = str(value)


def _word(text):
    word = text.strip(SPACES).lower()
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    return text or None  # only spaces are no word either, and the .pth file takes them for a value


def _from_variable(environ, name, complaints):
    text = environ.get(variable_of(name), "").strip(SPACES)
    if not text:
        return _default(name)
    kind = _KINDS[name]
    try:
        return Setting(kind.check(name, kind.parse(text)), ENVIRONMENT)
    except ValueError:
        complaints.append(
            "%s=%s was ignored, %s is %s: it must be %s, such as %s"
            % (variable_of(name), shown(text), name, _plain(kind.default), kind.allowed, kind.example)
        )
        return _default(name)


def _default(name):
    return Setting(_KINDS[name].default, DEFAULT)


def _plain(value):
    return "%g" % value if isinstance(value, float) else str(value)


def _to_float32(number):
    """Rounds to float32, the type of every loss scale, so that what is reported is what will be in force."""
    import struct

    return struct.unpack("<f", struct.pack("<f", number))[0]


def shown(value, limit=80):
    """A ``repr`` that is safe to put in a message: one line, ASCII, bounded, and never an exception.

    ASCII because a look-alike from another script shows, and no terminal takes any of it for a command.
    """
    try:
        text = " ".join(ascii(value).split())
    except Exception:  # a broken __repr__ must not hide the message that it is part of
        text = object.__repr__(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
