"""What is patched and why, as a value, as text and as JSON-ready data."""

import collections
import os
import sys

from tfls_patch import _rules, _settings
from tfls_patch._registry import LEAVES, TABLE, row_for, targets_of, version_text
from tfls_patch._settings import Rule
from tfls_patch._version import __version__

#: States of a target.
PATCHED, PENDING, ABSENT, REFUSED, STOCK = "patched", "pending", "absent", "refused", "stock"

TargetStatus = collections.namedtuple("TargetStatus", ["name", "state", "reason"])
TargetStatus.__doc__ = """One function that the patch replaces.

Attributes:
    name: Its module and path.
    state: ``patched``; ``pending``: its module is not imported yet; ``absent``: this version or installation does not
        have it; ``refused``: not a version or shape that is known; ``stock``: not armed.
    reason: Why, in a few words.
"""

Package = collections.namedtuple("Package", ["name", "version", "found", "path"])
Package.__doc__ = """A package that can hold a loss scale.

Attributes:
    name: ``tensorflow``, ``keras`` or ``tf_keras``.
    version: What it says of itself, or None while it is not imported.
    found: ``imported``, ``installed, not imported`` or ``not installed``.
    path: Its folder, or None.
"""


class Status(collections.namedtuple("Status", ("enabled", "switch") + Rule._fields + ("packages", "targets"))):
    """What is patched, pending, absent or refused, and why. Prints as a table.

    Attributes:
        enabled: Whether the patcher patches what is there and what will be imported.
        switch: What ``TFLS_PATCH`` in the environment amounts to, in words.
        min_scale: A ``Setting``: value and source (``argument``, ``environment``, ``default``).
        max_scale, regrow_steps, at_floor, patience: The same.
        packages: A tuple of `Package`.
        targets: A tuple of `TargetStatus`.
    """

    __slots__ = ()

    @property
    def patched(self):
        """Names of the targets that are patched now."""
        return tuple(target.name for target in self.targets if target.state == PATCHED)

    def to_dict(self):
        """Returns the same as dicts, lists, numbers and strings, ready for ``json.dumps``."""
        return {
            "version": __version__,
            "enabled": self.enabled,
            "switch": self.switch,
            "packages": [dict(package._asdict()) for package in self.packages],
            "targets": [dict(target._asdict()) for target in self.targets],
            **{name: dict(getattr(self, name)._asdict()) for name in Rule._fields},
        }

    def __str__(self):
        lines = ["tfls_patch %s: %s (%s)" % (__version__, "enabled" if self.enabled else "not enabled", self.switch)]
        for name in Rule._fields:
            setting = getattr(self, name)
            if name.endswith("_scale") or setting.source != _settings.DEFAULT:
                lines.append("  %-9s  %s  from the %s" % (name, setting_text(setting), setting.source))
        for package in self.packages:
            where = " in %s" % package.path if package.path else ""
            lines.append("  %s %s: %s%s" % (package.name, package.version or "", package.found, where))
        for state in (REFUSED, PATCHED, PENDING, STOCK, ABSENT):
            lines.extend(_lines_of_state(state, [target for target in self.targets if target.state == state]))
        return "\n".join(line.replace(" :", ":") for line in lines)

    __repr__ = __str__


def scale_text(value):
    """A scale as people read it: plain, and as a power of two where it is one."""
    import math

    mantissa, exponent = math.frexp(value)
    return "%.6g" % value + (" (2^%d)" % (exponent - 1) if mantissa == 0.5 else "")


def setting_text(setting):
    """The value of a setting as people read it."""
    return scale_text(setting.value) if isinstance(setting.value, float) else str(setting.value)


def status_of(snapshot):
    """Makes a `Status` of a `Snapshot`."""
    return Status(
        enabled=snapshot.is_armed and not snapshot.is_killed,
        switch=_switch_text(snapshot),
        packages=tuple(_package(name) for name in ("tensorflow", "keras", "tf_keras")),
        targets=tuple(target for leaf in LEAVES for target in _targets_in(leaf, snapshot)),
        **_rules.settings()._asdict(),
    )


def _switch_text(snapshot):
    word = _settings.switch()
    if snapshot.is_killed and snapshot.entries:
        return "TFLS_PATCH=0, the kill switch, set after patching: only revert() takes back what is patched"
    if snapshot.is_killed:
        return "TFLS_PATCH=0, the kill switch: nothing is patched"
    if isinstance(word, str):
        return "TFLS_PATCH is neither 1 nor 0" + ("" if snapshot.is_armed else "; tfls_patch.apply() patches")
    if not snapshot.is_armed:
        return "reverted; tfls_patch.apply() patches again"
    return "TFLS_PATCH is not set" if word is None else "TFLS_PATCH=1"


def _package(name):
    if name in sys.modules and sys.modules[name] is not None:
        return Package(name, version_text(name), "imported", _folder(getattr(sys.modules[name], "__file__", None)))
    from importlib.util import find_spec

    try:
        spec = find_spec(name)
    except Exception:  # find_spec runs the finders of other packages, and ours in strict mode
        spec = None
    if spec is None:
        return Package(name, None, "not installed", None)
    return Package(name, None, "installed, not imported", _folder(spec.origin))


def _folder(file):
    # Not __path__: TensorFlow and Keras put folders of their API in front of it.
    return os.path.dirname(file) if file else None


def _targets_in(leaf, snapshot):
    """The targets of one leaf module, for the version that is there; a single line if that has none."""
    package = LEAVES[leaf]
    entries = {entry.name + str(id(entry.owner)): entry for entry in snapshot.entries if entry.leaf == leaf}
    names = _target_names(leaf)
    if package in snapshot.refusals and (names or leaf in sys.modules):
        reason = str(snapshot.refusals[package])
        return [TargetStatus(name, REFUSED, reason) for name in names or [leaf]]
    if not names:
        return [TargetStatus(leaf, ABSENT, _why_absent(package))]
    home = leaf.split(".")[0]
    if not entries and _package(home).found == "not installed":  # keras, beside a TensorFlow 2.5
        return [TargetStatus(leaf, ABSENT, "%s is not installed" % home)]
    if entries:
        return [_patched(leaf, entry, snapshot) for entry in entries.values()]
    if not snapshot.is_armed or snapshot.is_killed:
        return [TargetStatus(name, STOCK, _switch_text(snapshot)) for name in names]
    return [TargetStatus(name, PENDING, "%s is not imported yet" % leaf) for name in names]


def _patched(leaf, entry, snapshot):
    name = entry.full_name
    if entry in snapshot.displaced:
        return TargetStatus(name, REFUSED, "something else has replaced it after tfls_patch had")
    untested = LEAVES[leaf] in snapshot.untested
    return TargetStatus(name, PATCHED, "newer than tested, known shape" if untested else "tested version, known shape")


def _target_names(leaf):
    """Full names of what is replaced in a leaf module: by the version in use, or by the newest if none is loaded."""
    package = LEAVES[leaf]
    text = version_text(package)
    if text is None:
        if _package(package).found == "not installed":
            return []
        rows = [row for row in TABLE if row.package == package and leaf in targets_of(row)][-1:]
    else:
        row, _ = row_for(package, text)
        rows = [row] if row is not None else []
    return ["%s.%s" % (leaf, target.path) for row in rows for target in targets_of(row).get(leaf, ())]


def _why_absent(package):
    text = version_text(package)
    if text is None:
        return "%s is not installed" % package
    return "not in %s %s" % (package, text)


def _lines_of_state(state, targets):
    if not targets:
        return []
    if state == ABSENT:
        return ["  absent    %d places of other versions" % len(targets)]
    by_reason = collections.OrderedDict()
    for target in targets:
        by_reason.setdefault(target.reason, []).append(target.name)
    lines = []
    for reason, names in by_reason.items():
        lines.append("  %-9s %s" % (state, reason))
        lines.extend("            " + name for name in names)
    return lines
