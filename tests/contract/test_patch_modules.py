"""Every patch module against the table and the test matrix: what a new version needs, and what was forgotten."""

import importlib
import os
import pkgutil
import sys

import pytest

import tfls_patch.patches
from tfls_patch import _registry
from tfls_patch._registry import LEAVES, TABLE, bounds_of_range

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import matrix

MODULES = [name for _, name, _ in pkgutil.iter_modules(tfls_patch.patches.__path__) if not name.startswith("_")]


def numbers(text):
    return tuple(int(part) for part in text.split("."))


def test_table_and_folder_hold_the_same_modules():
    assert sorted(row.module for row in TABLE) == sorted(MODULES)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.module)
def test_a_module_says_the_range_that_its_row_and_its_name_say(row):
    module = importlib.import_module("tfls_patch.patches." + row.module)
    assert module.VERSIONS == row.versions and module.__doc__
    low, high = bounds_of_range(row.versions)
    if row.module != "keras_3":
        last = numbers(high)[1] - 1 if numbers(high)[1] else 15  # 2.0 comes after 1.15
        first_name = low.replace(".", "_")
        last_name = "%d_%d" % (numbers(high)[0] if numbers(high)[1] else numbers(low)[0], last)
        prefix = {"tensorflow": "tf_", "tf_keras": "tf_keras_"}[row.package]
        assert row.module == prefix + (first_name if first_name == last_name else first_name + "_to_" + last_name)


@pytest.mark.parametrize("package", ["tensorflow", "tf_keras", "keras"])
def test_ranges_are_contiguous_and_do_not_overlap(package):
    ranges = [bounds_of_range(row.versions) for row in TABLE if row.package == package]
    for (_, high), (low, _) in zip(ranges, ranges[1:]):
        assert high == low


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.module)
def test_targets_are_in_watched_modules_and_well_formed(row):
    targets = _registry.targets_of(row)
    assert targets
    for leaf, functions in targets.items():
        assert LEAVES[leaf] == row.package and functions, leaf
        paths = [target.path for target in functions]
        assert len(set(paths)) == len(paths)
        for target in functions:
            assert isinstance(target.parameters, tuple) and isinstance(target.uses, tuple) and callable(target.replace)


def test_every_watched_module_is_patched_somewhere():
    assert set(LEAVES) == {leaf for row in TABLE for leaf in _registry.targets_of(row)}


def test_every_range_has_an_environment_in_the_matrix():
    minors = [numbers(row.minor) for row in matrix.ROWS]
    for row in TABLE:
        if row.package != "tensorflow":
            continue
        low, high = (numbers(text) for text in bounds_of_range(row.versions))
        assert any(low <= minor < high for minor in minors), "add an environment of %s to tests/matrix.py" % row.module
    for minor in minors:
        assert _registry.row_for("tensorflow", "%d.%d.0" % minor)[1], "no patch module covers TensorFlow %d.%d" % minor
    assert any("tf_keras" in row.tf for row in matrix.ROWS)


def test_the_thorough_tests_run_on_the_first_and_the_last_version_of_each_range():
    for row in TABLE:
        if row.package == "tensorflow":
            low, high = (numbers(text) for text in bounds_of_range(row.versions))
            minors = [numbers(each.minor) for each in matrix.ROWS if low <= numbers(each.minor) < high]
            ends = {min(minors), max(minors)}
            assert not ends & {numbers(name) for name in matrix.MIDDLE}, row.module
    assert set(matrix.MIDDLE) < {each.tf for each in matrix.ROWS}


@pytest.mark.skipif(not hasattr(sys, "stdlib_module_names"), reason="Python 3.10 on knows its standard library")
def test_the_package_imports_only_the_standard_library_wrapt_packaging_and_what_it_patches():
    import ast

    # NumPy is part of every TensorFlow and Keras; the doctor's last resort before Python 3.8 is pkg_resources.
    others = {"tfls_patch", "wrapt", "packaging", "tensorflow", "keras", "numpy", "pkg_resources"}
    allowed = set(sys.stdlib_module_names) | others
    root = os.path.dirname(tfls_patch.__file__)
    for folder, _, files in os.walk(root):
        if os.path.basename(folder) in ("demo", "__pycache__"):
            continue
        for name in files:
            if not name.endswith(".py"):
                continue
            for node in ast.walk(ast.parse(open(os.path.join(folder, name), encoding="utf-8").read())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module] if isinstance(node, ast.ImportFrom) else []
                assert {each.split(".")[0] for each in names} <= allowed, (name, names)


def test_the_rule_stands_once():
    """Nothing outside `scaling` brings a scale between bounds or compares it with one."""
    folder = os.path.dirname(tfls_patch.patches.__file__)
    for name in os.listdir(folder):
        if name.endswith(".py"):
            text = open(os.path.join(folder, name), encoding="utf-8").read()
            assert "maximum" not in text and ".minimum(" not in text and "max_scale" not in text, name
