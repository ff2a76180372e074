"""The state machine: armed or not, what is replaced, what was refused and why.

`_lock` guards the ledger and the refusals. Under it nothing is imported that is not loaded, no hook is registered and
no warning is given: all of those can wait for another thread or run other people's code.
"""

import sys
from _thread import RLock  # threading itself takes longer to import than this package

from tfls_patch import _activation, _log, _rules, _settings, _warn
from tfls_patch._ledger import Ledger, is_current, is_in_place
from tfls_patch._record import Record
from tfls_patch._registry import LEAVES, row_for, supported, targets_of, version_text
from tfls_patch.errors import TflsPatchWarning, UnsupportedVersionError


class Snapshot(Record):
    """The patcher's state at one moment.

    Attributes:
        is_armed: Whether it patches what is imported.
        is_killed: Whether ``TFLS_PATCH=0`` forbids that.
        entries: The ledger entries.
        displaced: Those of them whose replacement something else has replaced since.
        refusals: package -> `UnsupportedVersionError`.
        untested: package -> version that is newer than the newest tested, and patched.
    """

    __slots__ = ()
    _fields = ("is_armed", "is_killed", "entries", "displaced", "refusals", "untested")


class Patcher(object):
    """Patches what is loaded and what will be. One for the process: `PATCHER`."""

    def __init__(self):
        self._lock = RLock()
        self._ledger = Ledger()
        self._is_armed = False
        self._refusals = {}
        self._untested = {}
        self._told = set()

    def arm(self):
        """What ``import tfls_patch`` does: patches what is loaded and waits for the rest.

        Warns where it cannot; raises only in strict mode.
        """
        if self._is_killed("import tfls_patch"):
            return
        for complaint in _settings.Settings.from_environment()[1]:
            self._warn_once(complaint)
        word = _settings.switch()
        if isinstance(word, str):
            # No activation by a slip of the pen: at start-up the variable alone is what has us imported.
            self._warn_once(
                "TFLS_PATCH=%s is neither 1 nor 0 (or true, false, yes, no, on, off), so nothing is patched until "
                "tfls_patch.apply() is called" % _settings.shown(word, 40)
            )
            return
        self._is_armed = True
        self._watch()

    def apply(self, **arguments):
        """Explicit activation. Raises on what cannot be done, and then nothing has changed."""
        new = _rules.settings().replaced(**arguments)  # a bad argument is an error even under the switch
        if self._is_killed("tfls_patch.apply()"):
            return
        for module in _loaded_leaves():
            _warm_up(module)
        with self._lock:
            self._check_loaded()
            self._refusals.clear()
            _rules.use(new)
            self._is_armed = True
        self._watch()
        self._warn_of_stale_traces()

    def set_bounds(self, optimizer, min_scale, max_scale):
        """Gives one object bounds of its own."""
        from tfls_patch import _owners

        _rules.set_own(_owners.dynamic_scale_of(optimizer), min_scale, max_scale)
        self._warn_of_stale_traces()

    def revert(self):
        """Puts the originals back and stops waiting."""
        with self._lock:
            self._is_armed = False
            left = self._ledger.revert()
            self._refusals.clear()
            self._untested.clear()
            _rules.use(None)
        _activation.allow_imports()
        for entry in left:
            _warn.at_user_line(
                "%s was replaced by something else after tfls_patch had patched it, and was left as it is. "
                "To get stock back, undo that other patch" % entry.full_name
            )

    def snapshot(self):
        """Returns a `Snapshot`, after looking once more for leaf modules that were missed."""
        self._sweep()
        with self._lock:
            entries = self._ledger.entries()
            displaced = [entry for entry in entries if not is_in_place(entry)]
            return Snapshot(
                self._is_armed, _settings.killed(), entries, displaced, dict(self._refusals), dict(self._untested)
            )

    # --- patching ------------------------------------------------------------------------------------------------

    def _is_wanted(self):
        return self._is_armed and not _settings.killed()

    def _watch(self):
        self._sweep()
        _activation.wait(self._is_wanted, self._on_leaf, self._on_failure)

    def _sweep(self):
        """Patches the leaf modules that are loaded and not patched: imported before us, or anew after a purge."""
        for module in _loaded_leaves():
            self._on_leaf(module)

    def _on_leaf(self, module):
        """Patches one leaf module that is complete. Raises in strict mode only."""
        if not self._is_wanted():
            return
        try:
            self._patch(module.__name__, module)
        except UnsupportedVersionError as error:
            self._refuse(LEAVES[module.__name__], error)
        except Exception as error:  # whatever it is, it must not break the user's import
            self._refuse(LEAVES[module.__name__], _broken(module.__name__, error))

    def _on_failure(self, error):
        """The hooks cannot be registered: nothing will be patched."""
        for package in set(LEAVES.values()):
            self._refuse(package, _broken("the import hooks", error))

    def _patch(self, leaf, module):
        package = LEAVES[leaf]
        _warm_up(module)
        with self._lock:
            if not self._is_armed or self._is_patched(leaf, module) or package in self._refusals:
                return
            entries, is_tested = _entries_for(leaf, module)
            self._ledger.revert([leaf])  # what is left of a module object that was purged
            self._ledger.replace(entries)
            if not is_tested:
                self._untested[package] = version_text(package)
        if entries:
            _log.info("patched %s", leaf)
        if not is_tested:
            self._warn_once(
                "%s %s is newer than what tfls_patch was tested with (%s). Its shape is the known one, so it was "
                "patched; look for a newer tfls-patch" % (package, version_text(package), supported(package))
            )

    def _is_patched(self, leaf, module):
        """Whether the ledger has this very module: a purged or reloaded one has other classes under the same name."""
        entries = self._ledger.entries(leaf)
        return bool(entries) and all(entry.module is module and is_current(entry) for entry in entries)

    def _refuse(self, package, error):
        """All or nothing: what was patched of this package before goes back."""
        with self._lock:
            self._refusals[package] = error
            self._ledger.revert([leaf for leaf, owner in LEAVES.items() if owner == package])
        if _settings.strict():
            _activation.refuse_imports(error)
            raise error
        self._warn_once(str(error))

    def _check_loaded(self):
        """Raises if a loaded version or leaf module cannot be patched; changes nothing. Under the lock."""
        found = version_text("tensorflow")
        if found and row_for("tensorflow", found)[0] is None:  # it may be too old to have any of the leaf modules
            raise _unsupported("tensorflow", found)
        for module in _loaded_leaves():
            if not self._is_patched(module.__name__, module):
                _entries_for(module.__name__, module)

    # --- telling the user ----------------------------------------------------------------------------------------

    def _is_killed(self, what):
        if not _settings.killed():
            return False
        _log.info("%s did nothing: the environment says TFLS_PATCH=0", what)
        return True

    def _warn_of_stale_traces(self):
        traces = sys.modules.get("tfls_patch._traces")  # loaded with the first patched function
        if traces and traces.has_stale_traces():
            _warn.at_user_line(
                "A loss scale's update was already traced (tf.function, TF1 graph or compiled step) under another "
                "rule and keeps that. Call tfls_patch before the first step, or have it traced again: model.compile(), "
                "or a new tf.function"
            )

    def _warn_once(self, message):
        with self._lock:
            if message in self._told:
                return
            self._told.add(message)
        _tell(message)


def _loaded_leaves():
    modules = [sys.modules.get(leaf) for leaf in LEAVES]
    return [module for module in modules if module is not None and not _activation.is_initializing(module)]


def _warm_up(module):
    """Imports what `_entries_for` needs, so that under the lock it finds all of it loaded."""
    try:
        _entries_for(module.__name__, module)
    except UnsupportedVersionError:
        pass  # said where it counts


def _entries_for(leaf, module):
    """Returns ``(ledger entries, is the version tested)`` for a loaded leaf module; changes nothing.

    Raises:
        UnsupportedVersionError: the version or the shape is not a known one.
    """
    from tfls_patch._shape import ShapeMismatch, entry_for

    package = LEAVES[leaf]
    found = version_text(package)
    row, is_tested = row_for(package, found)
    if row is None:
        raise _unsupported(package, found)
    try:
        entries = [entry_for(leaf, module, target) for target in targets_of(row).get(leaf, ())]
    except ShapeMismatch as mismatch:
        raise UnsupportedVersionError(
            "%s with the shape that the patch %s knows" % (supported(package), row.module),
            "%s %s, where %s" % (package, found, mismatch),
            "If something else patches the loss scale, remove one of the two; otherwise please report this build.",
        )
    return entries, is_tested


def _unsupported(package, found):
    return UnsupportedVersionError(
        supported(package),
        "%s %s" % (package, found or "of unknown version"),
        "Install a supported version, or look for a tfls-patch that knows this one.",
    )


def _broken(what, error):
    return UnsupportedVersionError(
        "a working wrapt",
        "%s: %s: %s" % (what, type(error).__name__, error),
        "Install tfls-patch again, with its dependencies.",
    )


def _tell(message):
    """For imports, where the user's line is far away: one line, and never an exception inside an import."""
    import warnings  # not on top: most starts of Python have nothing to say

    try:
        # The brackets keep `warnings` from looking for a file of that name, to print a line of it.
        warnings.warn_explicit(message, TflsPatchWarning, "<tfls_patch>", 1, "tfls_patch")
    except TflsPatchWarning:  # warnings are errors here
        try:
            sys.stderr.write("tfls_patch: %s\n" % message)
        except Exception:  # there is none, or it is closed or full: then warnings get lost, not imports
            pass


PATCHER = Patcher()
