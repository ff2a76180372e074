"""Write docs/patch-releases.md: do the patch releases of one minor version differ where they hold a loss scale?

    python3 docs/compare_patch_releases.py                     compare all, and write the page
    python3 docs/compare_patch_releases.py tensorflow-2.4 ...  compare these again; the other lines stay as they are

For each minor version the oldest and the newest release are unpacked by ``uv pip install --no-deps --target`` into a
temporary folder, one pair at a time, and the modules that are patched are compared. It downloads some 10 GB for all of
TensorFlow. Needs Python 3.9 or newer, uv, and this repository; nothing of what is unpacked is run.
"""

import argparse
import ast
import datetime
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "patch-releases.md"
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "tests"))

import matrix  # noqa: E402
from tfls_patch._registry import LEAVES  # noqa: E402

#: Keras 3.0 to 3.15; 3.16 has no release yet.
KERAS_3_MINORS = 16
TEXT = """\
<!-- Written by docs/compare_patch_releases.py. Do not edit: run it again. -->

# Patch releases

The [test matrix](supported-versions.md) has one release of each TensorFlow minor version. Here is how it is known that
it stands for the others: the oldest and the newest release of each minor version were unpacked, and each module in
which something is replaced was compared.

Those in between were not looked at.

- **same**: byte for byte.
- **same code**: comments, docstrings or layout differ, the syntax trees are equal.
- **differs**: the code differs, in the modules that are named. None may: such a release needs a row in the test matrix.

| package | oldest | newest | modules compared | result | compared on |
| --- | --- | --- | --- | --- | --- |
{lines}
"""


def pairs():
    """Return ``{name of the line: (package, distribution, minor version, Python)}``."""
    found = {}
    for row in matrix.ROWS:
        if "+" not in row.tf and "rc" not in row.tf:
            # tensorflow-cpu has one release of 1.15, tensorflow six.
            distribution = "tensorflow" if row.minor == "1.15" else row.package.split("==")[0]
            found["tensorflow-" + row.minor] = ("tensorflow", distribution, row.minor, row.python)
            if row.keras.startswith("keras 2"):
                found["keras-" + row.minor] = ("keras", "keras", row.minor, row.python)
            if row.keras == "keras 3":
                found["tf_keras-" + row.minor] = ("tf_keras", "tf_keras", row.minor, row.python)
    found["tf_keras-2.15"] = ("tf_keras", "tf_keras", "2.15", "3.12")
    for minor in range(KERAS_3_MINORS):
        found["keras-3.%d" % minor] = ("keras", "keras", "3.%d" % minor, "3.12")
    return found


def compare(package, distribution, minor, python):
    """Return the cells of a line, without its name; None if there is no release."""
    folder = Path(tempfile.mkdtemp(prefix="patch_releases_"))
    try:
        oldest = unpack(folder / "oldest", distribution, minor, python, "lowest")
        newest = unpack(folder / "newest", distribution, minor, python, "highest")
        if oldest is None or newest is None:
            return None
        modules = sorted(set(modules_in(folder / "oldest", package)) | set(modules_in(folder / "newest", package)))
        if oldest == newest:
            result = "the only release"
        else:
            result = in_words({module: difference(folder, module) for module in modules})
        today = str(datetime.datetime.now(datetime.timezone.utc).date())
        return ["%s %s" % (distribution, oldest), newest, str(len(modules)), result, today]
    finally:
        shutil.rmtree(str(folder))


def unpack(folder, distribution, minor, python, resolution):
    """Unpack one release and return its version; None if there is none."""
    command = ["uv", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), "--python-version", python]
    command += ["--only-binary", ":all:", "--resolution", resolution, "%s==%s.*" % (distribution, minor)]
    finished = subprocess.run(command, stderr=subprocess.PIPE, universal_newlines=True)
    if finished.returncode != 0:
        print(finished.stderr.strip(), file=sys.stderr)
        return None
    name = distribution.replace("-", "[-_]")
    found = [re.match(r"(?i)%s-(.*)\.dist-info$" % name, path.name) for path in folder.iterdir()]
    return next(match.group(1) for match in found if match)


def modules_in(folder, package):
    """Return the paths, without the top folder, of the modules that are patched."""
    for leaf in LEAVES:
        parts = leaf.split(".")
        tops = [parts[0]] + (["tensorflow_core"] if parts[0] == "tensorflow" else [])
        if parts[0] == package and any(path_of(folder, top, parts[1:]).exists() for top in tops):
            yield "/".join(parts[1:]) + ".py"


def path_of(folder, top, parts):
    return folder.joinpath(top, *parts).with_suffix(".py")


def difference(folder, module):
    """Return ``"same"``, ``"same code"`` or ``"differs"``."""
    texts = []
    for which in ("oldest", "newest"):
        paths = [path for top in sorted((folder / which).iterdir()) for path in [top / module] if path.exists()]
        texts.append(paths[0].read_text(encoding="utf-8") if paths else None)
    if None in texts:
        return "differs"
    if texts[0] == texts[1]:
        return "same"
    return "same code" if tree(texts[0]) == tree(texts[1]) else "differs"


def tree(text):
    """Return the syntax tree without docstrings, as text."""
    parsed = ast.parse(text)
    for node in ast.walk(parsed):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            if isinstance(body[0].value, ast.Constant) and isinstance(body[0].value.value, str):
                del body[0]
    return ast.dump(parsed)


def in_words(differences):
    differing = [module for module, result in differences.items() if result == "differs"]
    if differing:
        return "differs: " + ", ".join("`%s`" % module for module in differing)
    return "same code" if "same code" in differences.values() else "same"


def lines_of_page():
    """Return ``{name: cells}`` of the page that is there."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    cells = [line[2:-2].split(" | ") for line in text.splitlines() if re.match(r"\| [a-z_]+-\d", line)]
    return {line[0]: line[1:] for line in cells}


def write(lines):
    ordered = [[name] + lines[name] for name in pairs() if name in lines]
    text = "\n".join("| %s |" % " | ".join(cells) for cells in ordered)
    PAGE.write_text(TEXT.format(lines=text), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="LINE", help="a line of the page, such as keras-3.3")
    names = parser.parse_args().names or list(pairs())
    lines = lines_of_page()
    for name in names:
        cells = compare(*pairs()[name])
        print(name, cells, flush=True)
        if cells:
            lines[name] = cells
            write(lines)
    missing = [name for name in names if name not in lines]
    if missing:
        sys.exit("compare_patch_releases.py: nothing to compare for %s" % ", ".join(missing))


if __name__ == "__main__":
    main()
