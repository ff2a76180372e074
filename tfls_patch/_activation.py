"""Waits for TensorFlow or Keras to be imported, at the price of one entry in ``sys.meta_path``.

The trip-wire is standard library only. It may be set while Python itself starts, when the environment is not complete
yet (``pip install --user`` and ``--system-site-packages`` come later), so wrapt is imported when it trips, not before.
"""

import sys
from _thread import RLock, get_ident  # threading itself takes longer to import than this package

from tfls_patch._registry import LEAVES, TOP_LEVEL, load_all

#: Guards the registration. Never taken by code that holds the patcher's lock: wrapt calls hooks under one of its own.
_lock = RLock()
_is_registered = False


class TripWire(object):
    """Registers the hooks just before one of the watched packages is executed.

    Not while it is looked for: Python calls `find_spec` under its global import lock, and an import in there (of wrapt)
    can wait for ever for a module that another thread is importing. So the wire hands out the real specification with
    a loader that registers the hooks first. It stays where it is when it has tripped: taking an entry out of
    ``sys.meta_path`` during an import makes the import skip the entry behind it.
    """

    def __init__(self, is_wanted, register):
        self._is_wanted = is_wanted
        self._register = register
        self._searches = set()  # (thread, name) of those under way

    def find_spec(self, fullname, path=None, target=None):
        """Part of the import protocol."""
        # The packages' own modules, too: a finder in front of us may have taken the package itself.
        if _is_registered or fullname.partition(".")[0] not in TOP_LEVEL or not self._is_wanted():
            return None
        search = (get_ident(), fullname)
        if search in self._searches:  # one of the others asks us in turn: a wrapping finder, or a second wire
            return None
        self._searches.add(search)
        try:
            spec = self._spec_of_others(fullname, path, target)
        finally:
            self._searches.discard(search)
        if hasattr(getattr(spec, "loader", None), "exec_module"):
            spec.loader = _RegisteringLoader(spec.loader, self._register)
        elif getattr(spec, "loader", None) is not None:  # one of the old protocol, from a hook of an old wrapt
            self._register()
        return spec

    def _spec_of_others(self, fullname, path, target):
        for finder in list(sys.meta_path):
            if finder is self:
                continue
            if hasattr(finder, "find_spec"):
                spec = finder.find_spec(fullname, path, target)
            else:
                import importlib.util

                loader = finder.find_module(fullname, path)
                spec = importlib.util.spec_from_loader(fullname, loader) if loader else None
            if spec is not None:
                return spec
        return None


class _RegisteringLoader(object):
    """Stands in for a loader until the module is created, then leaves no trace of itself, not even in a traceback."""

    def __init__(self, loader, register):
        self._loader = loader
        self._register = register

    def __getattr__(self, name):
        if name == "_loader":  # copying and unpickling ask before there is one
            raise AttributeError(name)
        return getattr(self._loader, name)

    def create_module(self, spec):
        """Part of the import protocol: its last step before the module's own code runs."""
        if spec.loader is self:  # otherwise somebody has wrapped us in turn, and must not be lost
            spec.loader = self._loader
        self._register()
        return self._loader.create_module(spec)


class Refusal(object):
    """Makes every further import of TensorFlow and Keras fail with the same error: what strict mode promises.

    Without it a second ``import tensorflow`` would succeed, unpatched: the hooks of the first one are spent.
    """

    def __init__(self, error):
        self.error = error

    def find_spec(self, fullname, path=None, target=None):
        """Part of the import protocol."""
        if fullname in TOP_LEVEL:
            raise self.error
        return None


def wait(is_wanted, on_leaf, on_failure):
    """Has `on_leaf` called for each leaf module when it is imported. Loaded ones are the caller's own business.

    wrapt up to 1.14 calls it under a lock that its finder takes too, and Python up to 3.12 asks finders under the
    global import lock. So while another thread imports anything at all, an import in `on_leaf` would wait for ever:
    what it needs is loaded before the hooks are registered.

    Args:
        is_wanted: Called when a watched package is about to be imported; False leaves the import alone.
        on_leaf: Called with a module that has just been executed. What it raises breaks the import.
        on_failure: Called with the exception if that cannot be done (wrapt is missing or broken).
    """

    def register():
        _register_hooks(on_leaf, on_failure)

    if any(name in sys.modules for name in TOP_LEVEL):
        register()
    elif not _has(TripWire):
        sys.meta_path.insert(0, TripWire(is_wanted, register))


def refuse_imports(error):
    """Installs a `Refusal`, once."""
    if not _has(Refusal):
        sys.meta_path.insert(0, Refusal(error))


def allow_imports():
    """Takes a `Refusal` back."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Refusal)]


def is_initializing(module):
    """Whether a module in ``sys.modules`` is still being executed, by this thread or another."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _has(kind):
    return any(isinstance(finder, kind) for finder in sys.meta_path)


def _register_hooks(on_leaf, on_failure):
    global _is_registered
    half_loaded = []
    with _lock:
        if _is_registered:  # wrapt has no way to unregister; the hooks ask whether they are still wanted
            return
        try:
            from wrapt import register_post_import_hook

            load_all()
        except Exception as error:
            return on_failure(error)
        for leaf in LEAVES:
            module = sys.modules.get(leaf)
            if module is None:
                register_post_import_hook(on_leaf, leaf)
            elif is_initializing(module):  # wrapt would call the hook at once, for a module that is not ready
                half_loaded.append(leaf)
        _is_registered = True
    for leaf in half_loaded:  # waits for the thread that imports it; returns at once if that is this thread
        import importlib  # not on top, see `_registry.targets_of`

        on_leaf(importlib.import_module(leaf))
