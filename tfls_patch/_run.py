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
    # `python -m tfls_patch` has put the current folder there; a script gets its own.
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    runpy.run_path(path, run_name="__main__")
    return 0


def module(name, arguments):
    """Runs the module `name` as ``__main__``, as ``python -m name arguments...`` does."""
    sys.argv[:] = [name] + list(arguments)
    runpy.run_module(name, run_name="__main__", alter_sys=True)
    return 0
