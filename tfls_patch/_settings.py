"""The bounds of the loss scale: their limits, where each came from, and the environment variables.

Precedence is argument > environment > default. Nothing here imports TensorFlow, wrapt or packaging.
"""

import collections
import math
import numbers
import os
import struct

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

Bounds = collections.namedtuple("Bounds", ["min_scale", "max_scale"])
Bounds.__doc__ = "The floor and the ceiling of a loss scale, two Python floats that float32 holds exactly."

Setting = collections.namedtuple("Setting", ["value", "source"])
Setting.__doc__ = "A value and where it came from: ``argument``, ``environment`` or ``default``."


class Settings(object):
    """The process-wide bounds, each with its source. Immutable: a change makes a new object."""

    def __init__(self, min_scale, max_scale):
        self.min_scale = min_scale
        self.max_scale = max_scale
        self.bounds = Bounds(min_scale.value, max_scale.value)

    @classmethod
    def from_environment(cls, environ=None):
        """Returns ``(settings, complaints)``: what the variables say, and a sentence for each that says nonsense.

        A variable that cannot be used is left out of account, so start-up never fails on it.
        """
        environ = os.environ if environ is None else environ
        complaints = []
        low = _from_variable(environ, "min_scale", DEFAULT_MIN_SCALE, complaints)
        high = _from_variable(environ, "max_scale", DEFAULT_MAX_SCALE, complaints)
        if low.value > high.value:
            complaints.append(
                "%s=%g (%s) is above %s=%g (%s); both were ignored"
                % ((variable_of("min_scale"),) + low + (variable_of("max_scale"),) + high)
            )
            low, high = Setting(DEFAULT_MIN_SCALE, DEFAULT), Setting(DEFAULT_MAX_SCALE, DEFAULT)
        word = _word(environ.get(STRICT_VARIABLE, ""))
        if isinstance(word, str):
            complaints.append("%s=%s was ignored: it must be 1 or 0" % (STRICT_VARIABLE, shown(word)))
        return cls(low, high), complaints

    def replaced(self, min_scale=None, max_scale=None):
        """Returns these settings with the arguments that are given in place of the old values.

        Raises:
            TypeError: an argument is not a number.
            ValueError: an argument is out of range, or the floor would be above the ceiling.
        """
        low = self.min_scale if min_scale is None else Setting(checked_scale("min_scale", min_scale), ARGUMENT)
        high = self.max_scale if max_scale is None else Setting(checked_scale("max_scale", max_scale), ARGUMENT)
        check_order(low.value, high.value)
        return Settings(low, high)


def checked_scale(name, value):
    """Returns `value` as the nearest float32, as a Python float.

    Args:
        name: The argument's name, for the message.
        value: An int, float or NumPy scalar; finite, 2**-126 <= value <= 2**126.

    Raises:
        TypeError: not a real number (bool, str, None, tensor, array ...).
        ValueError: NaN, infinite or out of range.
    """
    # NumPy registers its scalars as numbers.Real; bool is one too by inheritance, but True is no scale.
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError("%s must be %s, not %s of type %s" % (name, ALLOWED, shown(value), type(value).__name__))
    try:
        number = _to_float32(float(value))
    except OverflowError:  # an int beyond float64, or a float64 beyond float32
        number = math.inf
    if not SMALLEST_SCALE <= number <= LARGEST_SCALE:  # False for NaN as well
        raise ValueError("%s must be %s, got %s" % (name, ALLOWED, shown(value)))
    return number


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
VARIABLES = (SWITCH_VARIABLE, variable_of("min_scale"), variable_of("max_scale"), STRICT_VARIABLE)


def switch(environ=None):
    """Returns what ``TFLS_PATCH`` says: True, False, None (unset or empty), or its text if that is no known word."""
    return _word((os.environ if environ is None else environ).get(SWITCH_VARIABLE, ""))


def killed(environ=None):
    """Whether ``TFLS_PATCH`` is 0, false, no or off: the kill switch, which explicit calls obey too."""
    return switch(environ) is False


def strict(environ=None):
    """Whether ``TFLS_PATCH_STRICT`` asks that importing an unsupported TensorFlow fail."""
    return _word((os.environ if environ is None else environ).get(STRICT_VARIABLE, "")) is True


def export(status, environ=None):
    """Tells child processes what is in force here: they inherit the variables, and arm if this package is installed."""
    environ = os.environ if environ is None else environ
    if killed(environ):
        return
    environ[SWITCH_VARIABLE] = "1"
    for name in ("min_scale", "max_scale"):
        environ[variable_of(name)] = repr(getattr(status, name).value)


def _word(text):
    word = text.strip(SPACES).lower()
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    return text or None  # only spaces are no word either, and the .pth file takes them for a value


def _from_variable(environ, name, default, complaints):
    text = environ.get(variable_of(name), "").strip(SPACES)
    if not text:
        return Setting(default, DEFAULT)
    try:
        return Setting(checked_scale(name, float(text)), ENVIRONMENT)
    except ValueError:
        complaints.append(
            "%s=%s was ignored, %s is %g: it must be %s, such as 1e-4"
            % (variable_of(name), shown(text), name, default, ALLOWED)
        )
        return Setting(default, DEFAULT)


def _to_float32(number):
    """Rounds to float32, the type of every loss scale, so that what is reported is what will be in force."""
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
