"""What a check of the doctor has to say."""

import collections

#: States: as it should be; good to know; works, but look at it; the patch is not active because of it.
OK, NOTE, WARN, FAIL = "ok", "note", "warn", "fail"


class Finding(collections.namedtuple("Finding", ["name", "state", "found", "advice"])):
    """One line of the report.

    Attributes:
        name: What was looked at.
        state: ``ok``, ``note``, ``warn`` or ``fail``.
        found: What is there.
        advice: What to do about it, or an empty text.
    """

    __slots__ = ()

    def __str__(self):
        text = "  %-4s  %-13s  %s" % (self.state, self.name, _printable(self.found))
        return text + "\n%s-> %s" % (" " * 23, _printable(self.advice)) if self.advice else text


def _printable(text):
    """Escapes what steers a terminal: error messages and paths are other people's text."""
    return "".join(letter if letter.isprintable() or letter == "\n" else ascii(letter)[1:-1] for letter in text)


def ok(name, found):
    return Finding(name, OK, found, "")


def note(name, found, advice=""):
    return Finding(name, NOTE, found, advice)


def warn(name, found, advice):
    return Finding(name, WARN, found, advice)


def fail(name, found, advice):
    return Finding(name, FAIL, found, advice)
