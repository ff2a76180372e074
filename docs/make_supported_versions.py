"""Write docs/supported-versions.md from the test matrix and the table of patch modules.

    python3 docs/make_supported_versions.py             rewrite the file
    python3 docs/make_supported_versions.py --check     change nothing; exit status 1 if the file is stale

Needs Python 3.8 or newer and this repository; TensorFlow is not imported.
"""

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "supported-versions.md"
COMMAND = "python3 docs/make_supported_versions.py"

TEXT = """\
<!-- Written by docs/make_supported_versions.py. Do not edit: change tests/matrix.py or tfls_patch/_registry.py. -->

# Supported versions

A patch module is chosen by the version that the imported package gives itself. So `tensorflow`, `tensorflow-cpu`,
`tensorflow-gpu`, nightly and vendor builds count alike, with or without a suffix such as `rc0` or `+local`.

A version older than every range, or a build in which a function has another shape, is refused and left as it is. A
version newer than the newest range is patched if every function has the known shape, with one `TflsPatchWarning`.

## Environments of the test matrix

`python3 dev.py matrix` installs each row and runs the tests in it; `python3 dev.py matrix 2.10` runs one. All of them
are x86-64 Linux without a GPU.

{environments}

## Patch modules

The modules are in `tfls_patch/patches/`. "By the version of" names the package whose version decides.

{modules}

## What each patch module replaces

{functions}
"""


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, fail if the file is stale")
    options = parser.parse_args(arguments)
    text = page()
    if not options.check:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print("%s is stale: run %s" % (PAGE.relative_to(ROOT), COMMAND), file=sys.stderr)
    return 1


def page():
    """Return the text that the file should have."""
    os.environ["TFLS_PATCH"] = "0"  # importing the package is to patch nothing here
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    import matrix
    from tfls_patch import _registry

    rows = _registry.TABLE
    environments = [
        [each.tf, each.python, "`%s`" % each.package, each.keras, ", ".join(map(_code, _modules_for(each, _registry)))]
        for each in matrix.ROWS
    ]
    return TEXT.format(
        environments=_table(["TensorFlow", "Python", "installed as", "`tf.keras` is", "patch modules"], environments),
        modules=_table(
            ["by the version of", "range", "patch module"],
            [[_code(row.package), _code(row.versions), _code(row.module)] for row in rows],
        ),
        functions="\n\n".join(_functions_of(row, _registry.targets_of(row)) for row in rows),
    )


def _modules_for(environment, registry):
    """The module for this TensorFlow, and the one for its Keras if that has versions of its own."""
    found = [row.module for row in registry.TABLE if row.package == "tensorflow" and _is_in(environment.minor, row)]
    keras, _, version = environment.keras.partition(" ")
    if keras == "tf_keras":
        found += [row.module for row in registry.TABLE if row.package == keras and _is_in(version, row)]
    elif (keras, version) == ("keras", "3"):
        found += [row.module for row in registry.TABLE if row.package == "keras"]
    return found


def _is_in(version, row):
    from tfls_patch._registry import bounds_of_range

    low, high = bounds_of_range(row.versions)
    return _numbers(low) <= _numbers(version) < _numbers(high)


def _numbers(version):
    return tuple(int(part) for part in version.split("."))


def _functions_of(row, targets):
    lines = ["### `%s`" % row.module, ""]
    for leaf, functions in targets.items():
        lines.append("- `%s`: %s" % (leaf, ", ".join(_code(target.path) for target in functions)))
    return "\n".join(lines)


def _code(text):
    return "`%s`" % text


def _table(header, rows):
    lines = [header, ["---"] * len(header)] + rows
    return "\n".join("| %s |" % " | ".join(line) for line in lines)


if __name__ == "__main__":
    sys.exit(main())
