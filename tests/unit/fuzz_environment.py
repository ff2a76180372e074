"""Starts the patcher with odd texts in its environment variables, and checks what a start-up must never do.

    python tests/unit/fuzz_environment.py [--seed S] [--inputs N]

Run by test_fuzz_environment.py, in a process of its own: it arms the real thing, over and over.
"""

import argparse
import collections
import contextlib
import io
import math
import os
import random
import string
import struct
import sys
import warnings

from tfls_patch import _rules
from tfls_patch._patcher import Patcher

# From docs/usage.md, not from the code that is tested.
ON_WORDS = "1 true yes on y t".split()
OFF_WORDS = "0 false no off n f".split()
ASCII_SPACES = " \t\n\r\x0b\x0c"

SWITCH, STRICT, MIN, MAX = "TFLS_PATCH", "TFLS_PATCH_STRICT", "TFLS_PATCH_MIN_SCALE", "TFLS_PATCH_MAX_SCALE"
AT_FLOOR, REGROW, PATIENCE = "TFLS_PATCH_AT_FLOOR", "TFLS_PATCH_REGROW_STEPS", "TFLS_PATCH_PATIENCE"
#: Variables that hold one of some words, those that hold a scale, with its default, and those that hold a number of
#: steps, with the least that is allowed and its default. A new one is a new entry.
WORDS = {SWITCH: ON_WORDS + OFF_WORDS, STRICT: ON_WORDS + OFF_WORDS, AT_FLOOR: ["skip", "warn", "raise"]}
NUMBERS = {MIN: 2.0**-14, MAX: 2.0**126}
STEPS = {REGROW: (0, 0), PATIENCE: (1, 100)}
VARIABLES = sorted(WORDS) + sorted(NUMBERS) + sorted(STEPS)

#: Characters that look like, or fold to, those of the words and numbers.
LOOK_ALIKES = {
    "0": "\uff10\u0660\u06f0\u0966\U0001d7d8\u24ea\u2070O", "1": "\uff11\u0661\u00b9\u2460\u0967l|I\U0001d7cf",
    "e": "\uff45\u0435\u212f\u0117", "f": "\uff46\ufb00", "i": "\u0131\u0130\u2170", "k": "\u212a", "l": "\u2113",
    "n": "\uff4e\u207f\u0578", "o": "\uff4f\u043e\u03bf\u2134\u00ba", "r": "\uff52\u0433", "s": "\uff53\u017f\u0455",
    "t": "\uff54\u03c4\u0442", "u": "\uff55\u03c5", "y": "\uff59\u0443", ".": "\uff0e\u066b,\u00b7",
    "-": "\u2212\u2013\uff0d\u2010", "_": "\uff3f\u203f",
}  # fmt: skip
SPACES = (
    " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2003\u2007\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
    "\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e"
)
CONTROLS = [chr(code) for code in range(1, 32)] + ["\x7f", "\x9b", "\x90", "\u202e", "\u2066", "\u061c"]
SEQUENCES = [
    "\x1b[2J", "\x1b[31m", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\", "\x9b1A", "\r\n", "\n\n", "\x08" * 9,
    "\x1bc", "%s", "%(x)d", "{0}", "$(id)", "`id`", "; id", "../../etc/passwd", "__import__('os').abort()", "\\x00",
    "'", '"', "\\", "#", "\udc80", "\udcff\udcfe", "\ufffd", "\U0010ffff", "\U0001f600", "a\u0300" * 5,
]  # fmt: skip


class Grammar(object):
    """Makes texts, some sensible, most nearly so."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def environ(self):
        """Returns an environment with some of the variables in it."""
        r = self.random
        environ = {name: self.text(name) for name in VARIABLES if r.random() < 0.8}
        # Nothing else matters where the switch is off or misspelt, so more often it is not.
        plain = r.choice([None, None, None, "1", ""])
        return environ if plain is None else dict(environ, **{SWITCH: plain})

    def text(self, name):
        """Returns a text for a variable, one that a process can be given."""
        fitting = self.word if name in WORDS else self.number
        text = self.random.choice([fitting, fitting, fitting, self.word, self.number, self.noise])()
        for _ in range(self.random.choice([0, 0, 0, 1, 1, 2, 4])):
            text = self.mutated(text)
        return as_variable(text)

    def word(self):
        """One of the documented words, or close to one, in any case."""
        word = self.random.choice(sum(WORDS.values(), []) + "none null ok 2 -1 00 01 tru fals onn enable".split())
        return "".join(self.random.choice([each.lower(), each.upper()]) for each in word)

    def number(self):
        """A number in one of its many spellings."""
        r = self.random
        digits = "".join(r.choice("0123456789") for _ in range(r.choice([1, 1, 2, 3, 8, 20, 400])))
        return r.choice([
            lambda: digits,
            lambda: digits + "." + digits[:3],
            lambda: "." + digits,
            lambda: digits + ".",
            lambda: "%se%s%d" % (digits[:3], r.choice(["", "+", "-"]), r.choice([0, 1, 4, 37, 38, 39, 45, 308, 10**9])),
            lambda: "%se-%d" % (digits[:2], r.randrange(50)),
            lambda: "1e" + "9" * r.choice([3, 20, 5000]),
            lambda: "%r" % 2.0 ** r.randrange(-150, 150),
            lambda: "%r" % 10.0 ** r.uniform(-45, 45),
            lambda: (2.0 ** r.randrange(-150, 150)).hex(),
            lambda: hex(int(digits)) if len(digits) < 30 else "0x" + digits,
            lambda: "_".join(digits[:9]),
            lambda: r.choice(["nan", "NaN", "inf", "-inf", "Infinity", "infinit", "nan(1)", "1e", "e5", "--1", "+-1"]),
            lambda: r.choice(["-", "+", " - "]) + digits,
            lambda: r.choice(["2**-14", "2^-14", "1/16384", "1,5", "1;2", "1 2", "1e-4f", "0b1", "0o7", "1j", "True"]),
            lambda: "".join(chr(0x660 + int(each)) for each in digits),
        ])()  # fmt: skip

    def noise(self):
        """Anything else."""
        r = self.random
        return r.choice([
            lambda: os.fsdecode(bytes(r.randrange(1, 256) for _ in range(r.choice([1, 2, 5, 40])))),
            lambda: "".join(chr(r.randrange(1, 0x3000)) for _ in range(r.randrange(1, 20))),
            lambda: r.choice(SPACES) * r.choice([1, 2, 50]),
            lambda: "",
            lambda: r.choice(SEQUENCES) * r.choice([1, 3]),
            lambda: r.choice("x1 \n\x1b\u00e9") * r.choice([79, 80, 81, 1000, 20000]),
        ])()  # fmt: skip

    def mutated(self, text):
        """Returns the text with one change."""
        r = self.random
        at = r.randrange(len(text) + 1)
        kind = r.randrange(7)
        if kind == 0:
            return r.choice(SPACES) + text
        if kind == 1:
            return text + r.choice(SPACES)
        if kind == 2:
            return text[:at] + r.choice(CONTROLS) + text[at:]
        if kind == 3:
            return text[:at] + r.choice(SEQUENCES) + text[at:]
        if kind == 4 and at < len(text):
            return text[:at] + r.choice(LOOK_ALIKES.get(text[at].lower(), text[at])) + text[at + 1 :]
        if kind == 5 and at < len(text):
            return text[:at] + text[at + 1 :]
        return text.swapcase()


def as_variable(text):
    """Returns what a process would find in its environment: no NUL, and surrogates for undecodable bytes only."""
    return os.fsdecode(text.replace("\0", "").encode("utf-8", "surrogateescape" if _is_plain(text) else "replace"))


def _is_plain(text):
    return not any("\ud800" <= each < "\udc80" or "\udd00" <= each <= "\udfff" for each in text)


def word_of(name, environ):
    """The oracle: the word that the documentation sees in a variable, None if it is empty, "?" if that is no word."""
    text = environ.get(name, "")
    word = text.strip(ASCII_SPACES).translate({ord(upper): upper.lower() for upper in string.ascii_uppercase})
    if name == AT_FLOOR and not word:  # spaces alone are no value; for the others the .pth file takes them for one
        return None
    return word if word in WORDS[name] else "?" if text else None


def is_float32(number):
    """Whether float32 holds the number exactly."""
    return struct.unpack("<f", struct.pack("<f", number))[0] == number


class Start(object):
    """One start-up: what it said, how, and the state that it left."""

    def __init__(self, environ, as_errors):
        for name in VARIABLES:
            os.environ.pop(name, None)
        os.environ.update(environ)
        stderr = io.StringIO()
        with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stderr(stderr):
            warnings.simplefilter("error" if as_errors else "always")
            patcher = Patcher()
            patcher.arm()
            _rules.use(None)
            self.settings = _rules.settings()
        self.is_armed = patcher.snapshot().is_armed
        self.warnings = [str(each.message) for each in caught]
        self.lines = stderr.getvalue().split("\n")[:-1]
        assert not stderr.getvalue().rpartition("\n")[2]


def check(environ):
    """Starts up in an environment, with and without warnings as errors, and checks all that has to hold.

    Returns:
        The word in the switch, and the number of complaints.
    """
    word = word_of(SWITCH, environ)
    start, strict = Start(environ, as_errors=False), Start(environ, as_errors=True)
    assert not start.lines and not strict.warnings
    assert strict.lines == ["tfls_patch: " + warning for warning in start.warnings]
    assert start.is_armed == strict.is_armed == (word is None or word in ON_WORDS)
    assert start.settings == strict.settings
    low, high, regrow_steps, at_floor, patience = start.settings.rule
    word_at_floor = word_of(AT_FLOOR, environ)
    assert at_floor == ("skip" if word_at_floor in (None, "?") else word_at_floor)
    assert regrow_steps == (steps_of(environ, REGROW) or 0) and patience == (steps_of(environ, PATIENCE) or 100)
    assert 2.0**-126 <= low <= high <= 2.0**126 and as_float32(low) == low and as_float32(high) == high
    for message in start.warnings:
        assert message.isprintable() and len(message) < 300 and all(ord(each) < 127 for each in message)
    # Whoever switched it off does not want to hear of the rest.
    assert sorted(start.warnings) == sorted([] if word in OFF_WORDS else expected_complaints(environ, start))
    return word, len(start.warnings)


def expected_complaints(environ, start):
    """Returns those warnings of a start that are in order, and a text in place of each that is missing."""
    said = {message.split("=")[0]: message for message in start.warnings if " is above " not in message}
    expected = [said.get(name, "no word of " + name) for name in sorted(WORDS) if word_of(name, environ) == "?"]
    expected += [said.get(name, "no word of " + name) for name in sorted(STEPS) if steps_of(environ, name) is None]
    numbers = {name: number_of(environ.get(name, "")) for name in NUMBERS}
    values = {name: number or NUMBERS[name] for name, number in numbers.items()}
    expected += [said.get(name, "no word of " + name) for name, number in sorted(numbers.items()) if number == 0]
    if values[MIN] > values[MAX]:
        text = "{0} ({2}) is above {1} ({3}); both were ignored".format(
            *["%s=%g" % (name, values[name]) for name in (MIN, MAX)]
            + ["environment" if numbers[name] else "default" for name in (MIN, MAX)]
        )
        expected.append(text)
        values = NUMBERS
    assert start.settings.rule[:2] == (values[MIN], values[MAX])
    return expected


def number_of(text):
    """The oracle: the scale that the documentation sees in a text, None if it is empty, 0 if that is no scale."""
    try:
        number = as_float32(float(text))
    except ValueError:
        return 0 if text.strip(ASCII_SPACES) else None
    return number if 2.0**-126 <= number <= 2.0**126 else 0


def steps_of(environ, name):
    """The oracle: the number of steps that the documentation sees in a variable, None if it is nonsense."""
    lowest, default = STEPS[name]
    text = environ.get(name, "").strip(ASCII_SPACES)
    if not text:
        return default
    try:
        steps = int(text)
    except ValueError:
        return None
    return steps if lowest <= steps < 2**31 else None


def as_float32(number):
    """Rounds to the nearest float32."""
    try:
        return struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return math.inf


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=20210)
    parser.add_argument("--inputs", type=int, default=100000, help="texts in all, over all variables")
    options = parser.parse_args(arguments)
    print("seed %d" % options.seed)
    grammar = Grammar(options.seed)
    inputs, words, complaints = 0, collections.Counter(), 0
    while inputs < options.inputs:
        environ = grammar.environ()
        try:
            word, said = check(environ)
        except BaseException:
            print("failed on %s" % ascii({name: text[:200] for name, text in environ.items()}), flush=True)
            raise
        inputs, complaints = inputs + len(environ), complaints + said
        words[{None: "empty", "?": "other"}.get(word, "on" if word in ON_WORDS else "off")] += 1
    print(
        "%d inputs in %d environments, each started twice; switch: %s; %d complaints"
        % (inputs, sum(words.values()), ", ".join("%s %d" % each for each in sorted(words.items())), complaints)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
