"""Other people's import machinery around ours, on a fake TensorFlow: each case in a process of its own."""

import os
import sys
import zipfile

import pytest
import wrapt.importer


def said(fake, code, *options):
    """Runs the same code without and with us; returns what each says on stderr, in lines."""
    results = [fake(first + "\n" + code, *options) for first in ("import sys", "import tfls_patch")]
    assert results[0][:2] == results[1][:2]
    return [stderr.splitlines() for _, _, stderr in results]


BREAKAGES = [
    "import no_such_module",
    "raise OSError('libcudart.so: cannot open')",
    "raise KeyboardInterrupt",
    "raise SystemExit('no GPU here')",
    "from tensorflow.python.framework import no_such_name",
    "import tensorflow.python.no_such_module",
    "def f(:",
]


@pytest.mark.parametrize("broken", BREAKAGES)
def test_the_error_of_a_broken_tensorflow_is_the_users_own_to_the_last_frame(fake, broken):
    (fake.folder / "tensorflow" / "__init__.py").write_text(broken + "\n")
    stock, ours = said(fake, "import tensorflow")
    assert stock == ours and stock


@pytest.mark.parametrize("broken", BREAKAGES)
def test_an_error_in_a_module_that_is_watched_gets_frames_of_wrapt_at_most(fake, broken):
    fake.leaf.write_text(broken + "\n")
    stock, ours = said(fake, "import tensorflow")
    assert stock[-1] == ours[-1] and "tfls_patch" not in "".join(ours[2:])
    frames = [[line for line in lines if line.startswith("  File") and "tensorflow" in line] for lines in (stock, ours)]
    assert frames[0] == frames[1]


def test_an_absent_tensorflow_is_missed_as_without_us(fake):
    for code in ("import keras", "import keras.layers", "from tensorflow import nothing", "import tensorflow.nothing"):
        stock, ours = said(fake, code)
        assert stock == ours and "Error" in stock[-1]


def test_an_import_that_is_interrupted_can_be_repeated(fake):
    (fake.folder / "tensorflow" / "__init__.py").write_text(
        "from tensorflow.python.framework import versions\n"
        "from tensorflow.python.training.experimental import loss_scale\n"
        "__version__ = versions.VERSION\n"
        "import sys\n"
        "if not hasattr(sys, 'interrupted'):\n"
        "    sys.interrupted = True\n"
        "    raise KeyboardInterrupt\n"
    )
    code = """
        import tfls_patch
        try:
            import tensorflow
        except KeyboardInterrupt:
            pass
        import tensorflow
        tfls_patch.status()
        print(tensorflow.loss_scale.DynamicLossScale.update.__globals__["__name__"].split(".")[0])
    """
    assert fake(code) == (0, "tfls_patch", "")


@pytest.mark.parametrize("place", ["wrapt", "tfls_patch._shape"])
def test_an_interruption_of_our_own_imports_leaves_the_next_one_to_be_patched(fake, place):
    code = """
        import sys, tfls_patch
        class Interrupting(object):
            def find_spec(self, name, path=None, target=None):
                if name == %r:
                    sys.meta_path.remove(self)
                    raise KeyboardInterrupt
        sys.meta_path.insert(0, Interrupting())
        try:
            import tensorflow
        except KeyboardInterrupt:
            print("interrupted")
        import tensorflow
        print(len(tfls_patch.status().patched))
    """
    assert fake(code % place) == (0, "interrupted\n3", "")


WRAPPING = """
    import importlib.abc, importlib.machinery, sys
    executed = []
    class Loader(importlib.abc.Loader):
        def __init__(self, loader):
            self.loader = loader
        def create_module(self, spec):
            return self.loader.create_module(spec)
        def exec_module(self, module):
            executed.append(module.__name__)
            self.loader.exec_module(module)
    class Finder(object):
        def find_spec(self, name, path=None, target=None):
            if name %s:
                return None
            spec = importlib.machinery.PathFinder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = Loader(spec.loader)
            return spec
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("where", ["in front", "behind"])
@pytest.mark.parametrize("which", ["the package", "all of the package", "everything"])
def test_finders_that_wrap_loaders(fake, when, where, which):
    condition = {
        "the package": "!= 'tensorflow'",
        "all of the package": ".split('.')[0] != 'tensorflow'",
        "everything": "== ''",
    }[which]
    lines = ["sys.meta_path.insert(%s, Finder())" % ("0" if where == "in front" else "len(sys.meta_path)")]
    lines.insert(0 if when == "after" else 1, "import tfls_patch")
    lines.append("import tensorflow")
    if (when, where) == ("after", "in front") and which != "the package":
        lines.append("tfls_patch.apply()")  # nobody asks us: nothing tells us of the import
    lines.append("update = tensorflow.loss_scale.DynamicLossScale.update")
    lines.append("print(update.__globals__['__name__'].split('.')[0], executed.count('tensorflow'))")
    executed = 0 if where == "behind" else 1  # what is behind the usual finders is never asked
    code = WRAPPING % condition + "".join("    %s\n" % line for line in lines)
    assert fake(code) == (0, "tfls_patch %d" % executed, "")


def test_a_folder_that_only_has_the_name_of_tensorflow(fake):
    code = """
        import importlib.machinery, sys
        import tfls_patch
        class Namespace(object):
            def find_spec(self, name, path=None, target=None):
                if name == "tensorflow":
                    spec = importlib.machinery.ModuleSpec(name, None)
                    spec.submodule_search_locations = ["/nowhere"]
                    return spec
        sys.meta_path.insert(1, Namespace())
        import tensorflow
        print(list(tensorflow.__path__), "wrapt" in sys.modules)
    """
    assert fake(code) == (0, "['/nowhere'] False", "")


@pytest.mark.parametrize("options", [["-X", "importtime"], ["-S"], ["-I"], ["-O"], ["-OO"], ["-B"], ["-v"]])
def test_options_of_the_interpreter(fake, options):
    if options == ["-X", "importtime"] and sys.version_info < (3, 7):
        options = ["-X", "faulthandler"]
    code = "import sys; sys.path[:0] = %r; import tfls_patch, tensorflow; print(len(tfls_patch.status().patched))"
    status, stdout, stderr = fake(code % ([str(fake.folder)] + [path for path in sys.path if path]), *options)
    assert (status, stdout) == (0, "3"), stderr
    assert options[0] in ("-X", "-v") or not stderr


@pytest.mark.parametrize("zipped", ["tfls_patch", "tensorflow"])
def test_packages_in_archives(fake, zipped):
    import tfls_patch

    folder = os.path.dirname(os.path.abspath(tfls_patch.__file__)) if zipped == "tfls_patch" else None
    folder = folder or str(fake.folder / "tensorflow")
    archive = str(fake.folder / "archive.zip")
    with zipfile.ZipFile(archive, "w") as file:
        for place, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(place, name)
                if name.endswith(".py"):
                    file.write(path, os.path.join(zipped, os.path.relpath(path, folder)))
    code = """
        import sys
        sys.path.insert(0, %r)
        import tfls_patch, tensorflow
        assert "archive.zip" in sys.modules[%r].__file__
        print(len(tfls_patch.status().patched))
    """
    options = ["-S"] if zipped == "tfls_patch" else []  # an installed .pth would have imported the installed one
    code = code % (archive, zipped)
    if zipped == "tensorflow":
        (fake.folder / "tensorflow").rename(fake.folder / "elsewhere")
    assert fake(code, *options) == (0, "3", "")


def test_threads_that_import_at_once(fake):
    """Nothing hangs and each of them finds it patched, whoever was first."""
    (fake.folder / "keras").mkdir()
    (fake.folder / "keras" / "__init__.py").write_text("import tensorflow\n")
    code = """
        import sys, threading, tfls_patch
        sys.setswitchinterval(1e-5)
        start, found = threading.Barrier(5), []
        def run(names):
            start.wait()
            for name in names:
                __import__(name)
            import tensorflow
            found.append(tensorflow.loss_scale.DynamicLossScale.update.__globals__["__name__"].split(".")[0])
        # None imports a part of tensorflow first: two that meet half-way are a deadlock of Python's own.
        orders = [["keras"], ["tensorflow"], ["email.message", "keras"], ["wrapt"], ["json"]]
        threads = [threading.Thread(target=run, args=(names,)) for names in orders]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(len(found), set(found))
    """
    for _ in range(3):
        assert fake(code) == (0, "5 {'tfls_patch'}", "")


@pytest.mark.skipif(not hasattr(wrapt.importer.ImportHookFinder, "find_spec"), reason="wrapt from 1.13 on can do that")
def test_assertion_rewriting_by_pytest(fake):
    (fake.folder / "test_it.py").write_text(
        "import tfls_patch\n"
        "import tensorflow\n"
        "def test_it():\n"
        "    assert len(tfls_patch.status().patched) == 3\n"
        "    assert 'AssertionRewritingHook' in str(type(tensorflow.__loader__))\n"
    )
    (fake.folder / "conftest.py").write_text("import pytest\npytest.register_assert_rewrite('tensorflow')\n")
    code = "import pytest, sys; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', 'test_it.py']))"
    status, stdout, stderr = fake(code)
    assert status == 0 and "1 passed" in stdout, stdout + stderr


@pytest.mark.skipif(sys.version_info < (3, 8), reason="sub-interpreters can be made from Python 3.8 on")
def test_a_second_interpreter_in_the_process_is_patched_by_itself(fake):
    code = """
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        import sys, tfls_patch, tensorflow
        text = "import sys; sys.path[:] = %r; import tensorflow, tfls_patch; print(len(tfls_patch.apply().patched))"
        error = interpreters.run_string(interpreters.create(), text % (sys.path,))
        assert error is None, error
        print(len(tfls_patch.status().patched), flush=True)
    """
    status, stdout, stderr = fake(code)
    assert status == 0 and sorted(stdout.split()) == ["3", "3"], stdout + stderr
