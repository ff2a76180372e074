"""Import mechanics, with small fakes: each in a process of its own."""

import pytest

PATCHED = "print(len(tfls_patch.status().patched), type(tensorflow.__loader__).__name__)"


def test_importing_the_package_imports_nothing_heavy(fake):
    code = """
        import sys
        before = set(sys.modules)
        import tfls_patch
        new = set(sys.modules) - before
        heavy = {"tensorflow", "keras", "wrapt", "packaging", "numpy", "logging", "inspect", "json", "argparse", "re"}
        heavy |= {"collections", "weakref", "importlib", "warnings", "numbers", "struct"}
        print(sorted(new & heavy))
    """
    assert fake(code) == (0, "[]", "")
    assert fake(code, TFLS_PATCH="0") == (0, "[]", "")


def test_the_kill_switch_is_logged_where_somebody_can_hear_it(fake):
    code = "import logging; logging.basicConfig(level=logging.INFO); import tfls_patch"
    # Without site, or an installed .pth file would have had it imported before anybody could listen.
    assert "TFLS_PATCH=0" in fake(code, "-S", TFLS_PATCH="0")[2]


@pytest.mark.parametrize("first, second", [("tfls_patch", "tensorflow"), ("tensorflow", "tfls_patch")])
def test_both_orders_patch_and_leave_the_loader_alone(fake, first, second):
    assert fake("import %s, %s; %s" % (first, second, PATCHED)) == (0, "3 SourceFileLoader", "")


def test_reimporting_and_reloading_do_not_patch_twice(fake):
    code = """
        import importlib, tfls_patch, tensorflow
        function = tensorflow.loss_scale.DynamicLossScale.update
        importlib.reload(tfls_patch)
        tfls_patch.apply()
        assert tensorflow.loss_scale.DynamicLossScale.update is function
        importlib.reload(tensorflow.loss_scale)
        tfls_patch.apply()
        assert tensorflow.loss_scale.DynamicLossScale.update.__globals__["__name__"].startswith("tfls_patch")
        assert tensorflow.loss_scale.DynamicLossScale.update is not function
        tfls_patch.revert()
        assert tensorflow.loss_scale.DynamicLossScale.update.__globals__["__name__"].startswith("tensorflow")
    """
    assert fake(code) == (0, "", "")


def test_without_tensorflow_nothing_happens(fake):
    code = """
        import tfls_patch
        status = tfls_patch.apply()
        print(status.patched, {target.state for target in status.targets} <= {"absent", "pending"})
    """
    assert fake(code) == (0, "() True", "")


def test_the_error_of_a_broken_tensorflow_is_the_users_own(fake):
    (fake.folder / "tensorflow" / "__init__.py").write_text("raise OSError('libcudart.so: cannot open')\n")
    status, _, stderr = fake("import tfls_patch\nimport tensorflow")
    assert status == 1 and stderr.endswith("OSError: libcudart.so: cannot open") and "tfls_patch" not in stderr


def test_a_foreign_shape_is_left_alone_with_one_line_and_strict_mode_fails_the_import(fake):
    fake.leaf.write_text(fake.leaf.read_text().replace("self, grads", "self, grads, replica"))
    code = "import tfls_patch, tensorflow; print(tfls_patch.status().patched)"
    status, stdout, stderr = fake(code)
    assert status == 0 and stdout == "()" and len(stderr.splitlines()) == 1 and "takes (self, grads, replica)" in stderr
    again = """
        import tfls_patch
        try:
            import tensorflow
        except tfls_patch.UnsupportedVersionError:
            tfls_patch.revert()
            import tensorflow
            print(tensorflow.__version__)
    """
    assert fake(again, TFLS_PATCH_STRICT="1") == (0, "2.10.1", "")
    for options in ((), ("-W", "error::RuntimeWarning")):
        status, _, stderr = fake(code, *options, TFLS_PATCH_STRICT="1")
        assert status == 1 and "UnsupportedVersionError" in stderr
    status, stdout, stderr = fake(code, "-W", "error::RuntimeWarning")
    assert (status, stdout) == (0, "()") and len(stderr.splitlines()) == 1


def test_a_missing_wrapt_is_one_line_and_stock_tensorflow(fake):
    (fake.folder / "wrapt.py").write_text("raise ImportError('no wrapt here')\n")
    status, stdout, stderr = fake("import tfls_patch, tensorflow; print(tfls_patch.status().patched)")
    assert status == 0 and stdout == "()", stderr
    assert "no wrapt here" in stderr and "Install tfls-patch again" in stderr


def test_a_bad_variable_is_one_line_on_stderr(fake):
    status, stdout, stderr = fake("import tfls_patch, tensorflow; " + PATCHED, TFLS_PATCH_MIN_SCALE="tiny")
    assert (status, stdout) == (0, "3 SourceFileLoader")
    assert len(stderr.splitlines()) == 1 and "TFLS_PATCH_MIN_SCALE=" in stderr


def test_an_unknown_word_activates_nothing_by_itself(fake):
    code = "import tfls_patch, tensorflow; print(len(tfls_patch.status().patched), len(tfls_patch.apply().patched))"
    status, stdout, stderr = fake(code, TFLS_PATCH="may\nbe")
    assert (status, stdout) == (0, "0 3") and len(stderr.splitlines()) == 1 and "TFLS_PATCH='may\\nbe'" in stderr


def test_a_tensorflow_that_is_too_old_for_any_of_it_is_refused_by_apply(fake):
    (fake.folder / "tensorflow" / "python" / "framework" / "versions.py").write_text("VERSION = '1.13.1'\n")
    (fake.folder / "tensorflow" / "__init__.py").write_text("from tensorflow.python.framework import versions\n")
    code = """
        import tfls_patch, tensorflow
        try:
            tfls_patch.apply()
        except tfls_patch.UnsupportedVersionError as error:
            print(error)
    """
    status, stdout, _ = fake(code)
    assert status == 0 and "tensorflow >=1.14,<2.23 but found tensorflow 1.13.1" in stdout


def test_the_kill_switch_leaves_one_info_line_for_each_call(fake):
    code = """
        import logging
        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
        import tfls_patch, tensorflow
        status = tfls_patch.apply(min_scale=0.5)
        print(status.patched, status.enabled)
    """
    status, stdout, stderr = fake(code, TFLS_PATCH="0")
    assert (status, stdout) == (0, "() False")
    lines = stderr.splitlines()
    assert all(line.startswith("INFO tfls_patch ") for line in lines)
    # Where the .pth file is installed, the package was imported before there was logging.
    assert "apply() did nothing" in lines[-1] and len(lines) <= 2


def test_revert_warns_at_the_users_line_of_what_it_leaves_alone(fake):
    code = """
        import sys, warnings, tfls_patch, tensorflow
        ours = tensorflow.loss_scale.DynamicLossScale.update
        tensorflow.loss_scale.DynamicLossScale.update = theirs = lambda self, grads: ours(self, grads)
        states = {t.name.split("experimental.")[-1]: t.state for t in tfls_patch.status().targets}
        assert states["loss_scale.DynamicLossScale.update"] == "refused", states
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tfls_patch.revert(); line = sys._getframe().f_lineno
        assert tensorflow.loss_scale.DynamicLossScale.update is theirs
        assert "__init__" in vars(tensorflow.loss_scale.FixedLossScale)
        told = [each for each in caught if issubclass(each.category, tfls_patch.TflsPatchWarning)]
        print(len(told), told[0].lineno == line, "undo that other patch" in str(told[0].message))
    """
    assert fake(code) == (0, "1 True True", "")


def test_bad_arguments_change_nothing(fake):
    code = """
        import tfls_patch, tensorflow
        tfls_patch.apply(min_scale=0.5, max_scale=8)
        nan = float("nan")
        for bad in ({"min_scale": 0}, {"min_scale": 16}, {"max_scale": 0.25}, {"min_scale": 0.1, "max_scale": nan}):
            try:
                tfls_patch.apply(**bad)
            except ValueError:
                assert tfls_patch.status().min_scale.value == 0.5 and tfls_patch.status().max_scale.value == 8, bad
            else:
                raise AssertionError(bad)
    """
    assert fake(code) == (0, "", "")


def test_another_finder_between_is_still_asked(fake):
    code = """
        import sys, tfls_patch
        asked = []
        class Finder(object):
            def find_spec(self, name, path=None, target=None):
                asked.append(name)
        sys.meta_path.insert(1, Finder())
        import importlib.util
        assert importlib.util.find_spec("tensorflow").loader.get_filename("tensorflow")  # looking is not importing
        assert "wrapt" not in sys.modules
        import tensorflow
        assert tensorflow.__spec__.loader is tensorflow.__loader__
        print(asked.count("tensorflow"), len(tfls_patch.status().patched))
    """
    assert fake(code) == (0, "2 3", "")


def test_hooks_and_lazy_loaders_of_others_are_not_lost(fake):
    code = """
        import copy, importlib.util, sys, tfls_patch, wrapt
        spec = importlib.util.find_spec("tensorflow")
        assert copy.copy(spec.loader).get_filename("tensorflow") == spec.origin
        wrapt.register_post_import_hook(lambda module: print("theirs", module.__name__), "tensorflow")
        import tensorflow
        print(len(tfls_patch.status().patched))
    """
    assert fake(code) == (0, "theirs tensorflow\n3", "")
    code = """
        import importlib.util, sys, tfls_patch
        spec = importlib.util.find_spec("tensorflow")
        spec.loader = importlib.util.LazyLoader(spec.loader)
        sys.modules["tensorflow"] = tensorflow = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(tensorflow)
        assert not tfls_patch.status().patched
        print(tensorflow.__version__, len(tfls_patch.status().patched))
    """
    assert fake(code)[:2] == (0, "2.10.1 3")


def test_a_purged_and_reimported_package_does_not_search_in_a_circle(fake):
    code = """
        import sys, tfls_patch
        for name in [name for name in sys.modules if name.split(".")[0] == "tfls_patch"]:
            del sys.modules[name]
        import tfls_patch, tensorflow
        print(len(tfls_patch.status().patched))
    """
    assert fake(code)[:2] == (0, "3")


def test_a_purged_and_reimported_tensorflow_is_patched_again(fake):
    code = """
        import sys, tfls_patch, tensorflow
        for name in [name for name in sys.modules if name.split(".")[0] == "tensorflow"]:
            del sys.modules[name]
        import tensorflow
        tfls_patch.apply()
        print(tensorflow.loss_scale.DynamicLossScale.update.__globals__["__name__"].split(".")[0])
    """
    assert fake(code) == (0, "tfls_patch", "")
