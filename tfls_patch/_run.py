"""Runs somebody's script or module as if Python had been started with it."""

import os
import runpy
import sys


def script(path, arguments):
    """Runs the file `path` as ``__main__``, as ``python path arguments...`` does.

    Returns:
        0; a script that exits otherwise raises its own ``SystemExit``, and its exceptions go through.
    """
    if not os.path.exists(path):
        sys.stderr.write("tfls_patch: can't open file %r: no such file\n" % path)
        return 2
    sys.argv[:] = [path] + list(arguments)
    _put_first(os.path.dirname(os.path.abspath(path)))
    runpy.run_path(path, run_name="__main__")
    return 0


def module(name, arguments):
    """Runs the module `name` as ``__main__``, as ``python -m name arguments...`` does."""
    sys.argv[:] = [name] + list(arguments)
    _put_first(os.getcwd())
    runpy.run_module(name, run_name="__main__", alter_sys=True)
    return 0


def _put_first(folder):
    """Makes `folder` the first place to import from, in place of what was put there for our own start.

    That is the current folder for ``python -m tfls_patch`` and the folder of the command for ``tfls-patch``. Under
    -I and -P Python puts nothing there, for the script neither.
    """
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        sys.path[0] = folder
