"""Imports TensorFlow and reports the time that is ours: ``import_worker.py stock|patched SHARED``; see import_time.py.

SHARED is a JSON list of modules that TensorFlow loads in any case: they are loaded before the clock of the hooks
starts. The last line of the output is JSON. Runs on every supported Python.
"""

import importlib
import json
import sys
import time

clock = time.perf_counter
spent, loaded = {}, []
running = []  # parts whose clock runs: what one of them calls is not counted again


def timed(part, function):
    def call(*arguments, **named):
        if running:
            return function(*arguments, **named)
        running.append(part)
        begin = clock()
        try:
            return function(*arguments, **named)
        finally:
            spent[part] = spent.get(part, 0.0) + clock() - begin - OF_ITSELF
            running.pop()

    return call


def of_itself(count=10000):
    """What a clock reports of a function that does nothing."""
    nothing = timed("calibration", lambda name, path, target: None)
    for _ in range(count):
        nothing("name", None, None)
    return spent.pop("calibration") / count


OF_ITSELF = 0.0
OF_ITSELF = of_itself()


def watch(shared):
    """Imports the package as the .pth file does, then puts clocks into it."""
    begin = clock()
    import tfls_patch  # noqa: F401

    spent["import tfls_patch"] = clock() - begin
    from tfls_patch import _activation
    from tfls_patch._patcher import PATCHER

    PATCHER.revert()  # not the public one: that reports, for which it loads more
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != _activation.__name__]
    register = timed("hooks", _activation._register_hooks)

    def register_hooks(*arguments):
        for name in shared:
            importlib.import_module(name)
        before = set(sys.modules)
        register(*arguments)
        loaded.extend(sorted(set(sys.modules) - before))
        time_finders("wrapt")

    _activation._register_hooks = register_hooks
    PATCHER._on_leaf = timed("patching", PATCHER._on_leaf)
    PATCHER.apply()
    time_finders("tfls_patch")


def time_finders(package):
    for finder in sys.meta_path:
        if type(finder).__module__.partition(".")[0] == package:
            name = "find_spec" if hasattr(finder, "find_spec") else "find_module"  # the latter up to wrapt 1.12
            setattr(finder, name, timed("finders", getattr(finder, name)))


start = clock()
if sys.argv[1] == "patched":
    watch(json.loads(sys.argv[2]))
import tensorflow as tf  # noqa: E402  (this is what is timed)

tf.keras.Model
total = clock() - start
keras = sys.modules[tf.keras.Model.__module__.partition(".")[0]]
report = {"total": total, "spent": spent, "loaded": loaded, "modules": sorted(sys.modules)}
report.update(tensorflow=tf.__version__, keras="%s %s" % (keras.__name__, getattr(keras, "__version__", "")))
print(json.dumps(report))
