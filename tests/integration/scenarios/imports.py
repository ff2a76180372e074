"""The patch is in place whatever is imported first: usage ``imports.py ORDER``, one process for each."""

import os
import sys
import threading

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
order = sys.argv[1]


def touch_keras():
    import tensorflow as tf

    tf.keras.optimizers.SGD


def check_patched():
    import tensorflow as tf
    from tfls_patch._registry import LEAVES

    status = tfls_patch.status()
    states = {target.state for target in status.targets}
    assert status.enabled and states <= {"patched", "absent", "pending"} and status.patched, status
    pending = [target.name for target in status.targets if target.state == "pending"]
    loaded = [leaf for leaf in LEAVES if leaf in sys.modules and any(name.startswith(leaf) for name in pending)]
    assert not loaded, loaded
    assert "tensorflow.python.training.experimental.loss_scale.DynamicLossScale.update" in status.patched
    version = tuple(int(part) for part in tf.__version__.split(".")[:2])
    if version >= (2, 4):
        home = type(tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(1.0))).__module__
        assert any(name.startswith(home) for name in status.patched), (home, status)


if order == "ours first":
    import tfls_patch

    assert not {"tensorflow", "keras", "wrapt", "packaging", "numpy"} & set(sys.modules), sorted(sys.modules)
    touch_keras()
elif order == "tensorflow first":
    touch_keras()
    import tfls_patch
elif order == "tensorflow first, keras late":
    import tensorflow

    import tfls_patch

    touch_keras()
elif order == "keras first":
    import tfls_patch

    try:
        import keras
    except ImportError:
        pass  # before TF 2.5 there is none
    touch_keras()
elif order == "compat.v1":
    import tfls_patch

    import tensorflow.compat.v1

    touch_keras()
elif order == "apply first":
    import tfls_patch

    status = tfls_patch.apply(min_scale=1e-4)
    assert not status.patched and {target.state for target in status.targets} <= {"pending", "absent"}, status
    touch_keras()
elif order == "reverted before":
    import tfls_patch

    tfls_patch.revert()
    touch_keras()
    assert not tfls_patch.status().patched
    tfls_patch.apply()
elif order == "hooks import nothing":
    # An import in a hook can wait for ever for another thread that imports, under wrapt up to 1.14.
    import importlib._bootstrap as machinery

    import tfls_patch
    from tfls_patch._patcher import PATCHER

    searches, inside = [], []
    find_and_load, on_leaf = machinery._find_and_load, PATCHER._on_leaf

    def noting_find_and_load(name, *arguments):
        searches.extend((name, leaf) for leaf in inside)
        return find_and_load(name, *arguments)

    def noting_on_leaf(module):
        inside.append(module.__name__)
        on_leaf(module)
        assert inside.pop() == module.__name__

    machinery._find_and_load = noting_find_and_load
    tfls_patch.revert()
    sys.meta_path[:] = [finder for finder in sys.meta_path if "TripWire" not in str(type(finder))]
    PATCHER._on_leaf = noting_on_leaf
    tfls_patch.apply()
    touch_keras()
    assert not searches, searches
    inside.append("what an import looks like")
    import tfls_patch.doctor  # noqa: F401

    assert [name for name, _ in searches][:1] == ["tfls_patch.doctor"], searches
    inside.clear()
elif order == "threads":
    # Two threads apply and revert while a third imports: the end is consistent, and nothing hangs or breaks.
    import tfls_patch

    done = threading.Event()
    errors = []

    def toggle(min_scale):
        try:
            while not done.is_set():
                tfls_patch.apply(min_scale=min_scale)
                tfls_patch.revert()
                done.wait(0.005)  # a busy thread would starve the import of the interpreter lock
        except Exception as error:
            errors.append(error)

    togglers = [threading.Thread(target=toggle, args=(value,)) for value in (0.5, 0.25)]
    for thread in togglers:
        thread.start()
    touch_keras()
    done.set()
    for thread in togglers:
        thread.join()
    assert not errors, errors
    tfls_patch.revert()
    assert not tfls_patch.status().patched
    tfls_patch.apply(min_scale=0.5)
    assert tfls_patch.status().min_scale == (0.5, "argument")
elif order == "killed":
    os.environ["TFLS_PATCH"] = "0"
    import tfls_patch

    touch_keras()
    status = tfls_patch.apply(min_scale=1e-4)
    assert not status.enabled and not status.patched and "kill switch" in str(status), status
    assert "wrapt.importer" not in [
        type(finder).__module__ for finder in sys.meta_path if "TripWire" in str(type(finder))
    ]
    print("OK " + order)
    sys.exit()
else:
    sys.exit("no such order: " + order)
check_patched()
print("OK " + order)
