"""Runs somebody's script or module as if Python had been started with it."""

import builtins
import os
import runpy
import sys
import types


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
    if os.path.isfile(path) and not path.endswith((".pyc", ".zip", ".pyz")):
        _execute(path)
    else:
        runpy.run_path(path, run_name="__main__")
    return 0


def _execute(path):
    """Executes a source file as the module ``__main__``, and leaves it there.

    runpy takes it away at the end, before exit handlers and threads that may still want to pickle a class of it.
    """
    main = types.ModuleType("__main__")
    main.__file__, main.__builtins__, main.__package__ = path, builtins, None
    with open(path, "rb") as source:
        code = compile(source.read(), path, "exec", dont_inherit=True)
    sys.modules["__main__"] = main
    exec(code, vars(main))


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
