"""What docs/security.md says of real interpreters: the .pth file, and odd texts in the variables."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from environments import ROOT, Environment, run

OLDEST, NEWEST = "3.6", "3.13"
NAMES = ["TFLS_PATCH"] + [
    "TFLS_PATCH_" + name for name in ("MIN_SCALE", "MAX_SCALE", "REGROW_STEPS", "AT_FLOOR", "PATIENCE", "STRICT")
]

#: What may stand in a variable by accident or by malice. Bytes that are no text come as surrogates.
NASTY = [
    " ", "\t\n", "\u00a0", "\u3000", "\u2028", "\ufeff1", "1\u00a0", "\u200b1", "\x1c1", "1\x85",
    "\uff11", "\u0661", "\u00b9", "\u2460", "\u24d5", "o\uff4e", "\u043en", "ye\u017f", "YE\u017f", "tr\u00fce",
    "\u0131", "\u0130", "\u212a", "O\u0308N", "\udcff", "1\udc80", "\udced\udca0\udc80",
    "\x1b[2J\x1b[31m1", "\x1b]0;title\x07", "\x9b31m", "1\r\nforged: line", "\x08" * 20, "\x7f", "\u202e1",
    "__import__('os').system('exit 3')", "$(exit 3)", "; exit 3", "%s%s%n", "{0.__class__}", "../../../etc/passwd",
    "/dev/stdin", "tfls_patch", "nan", "-inf", "1e999999999", "1_000", "0x1p-3", "1e-400", "-0.0", "9" * 5000,
    "1" + "0" * 100000, "x" * 100000, "\U0001f600" * 20000, "'", '"\\', "\\x1b[2J", "1 1", "2", "TRUE1",
]  # fmt: skip


def _shown(text):
    return ascii(text)[:30]


@pytest.fixture(scope="module", params=[OLDEST, NEWEST])
def installed(request, distributions, tmp_path_factory):
    """An environment with the wheel in it, for tests that do not change it."""
    environment = Environment(tmp_path_factory.mktemp("security") / "env", request.param, "--without-pip")
    environment.install(distributions.wheel)
    return environment


@pytest.mark.parametrize("text", NASTY, ids=_shown)
def test_a_nasty_text_in_every_variable_neither_stops_the_interpreter_nor_arms_it(installed, text):
    seen, stderr = installed.start(text, **{name: text for name in NAMES[1:]})
    assert seen == {"imported": ["tfls_patch"], "hooks": 0}
    _check_lines(stderr)


@pytest.mark.parametrize("text", NASTY[::4], ids=_shown)
def test_a_nasty_text_beside_a_good_switch_leaves_it_armed(installed, text):
    seen, stderr = installed.start("1", **{name: text for name in NAMES[1:]})
    assert seen == {"imported": ["tfls_patch"], "hooks": 1}
    _check_lines(stderr)


def _check_lines(stderr):
    """One short line for each variable at most, and nothing in it that a terminal takes for a command."""
    lines = stderr.split("\n")
    assert lines.pop() == ""
    about = [re.match(r"<tfls_patch>:1: TflsPatchWarning: (\w+)=", line).group(1) for line in lines]
    assert len(about) == len(set(about)) and set(about) <= set(NAMES)
    assert all(line.isprintable() and len(line) < 300 and ord(max(line)) < 127 for line in lines)


# Records what Python's audit hooks see while the .pth files run. Without -S they have run before any code can ask.
AUDIT = """
import json, sys
events = []
sys.addaudithook(lambda name, arguments: events.append((name, arguments)))
import site
site.main()
seen = list(events)
opened = [[str(arguments[0]), str(arguments[1]), arguments[2]] for name, arguments in seen if name == "open"]
print(json.dumps({
    "kinds": sorted({name for name, _ in seen}), "opened": opened, "text": ascii([repr(each) for each in seen]),
    "imported": "tfls_patch" in sys.modules, "prefixes": [sys.prefix, sys.base_prefix],
}))
"""
HARMLESS = {"compile", "exec", "import", "marshal.loads", "object.__setattr__", "open", "os.listdir", "os.scandir",
            "sys._getframe", "sys._getframemodulename"}  # fmt: skip


@pytest.mark.parametrize("switch", ["1", "Xq7Mark", "../Xq7Mark/passwd", "__import__('Xq7Mark')"])
def test_the_text_of_a_variable_reaches_no_file_import_or_code_and_nothing_is_written(distributions, tmp_path, switch):
    environment = Environment(tmp_path / "env", NEWEST, "--without-pip")
    environment.install(distributions.wheel)
    env = {name: switch if name == "TFLS_PATCH" else "/Xq7Mark/%s" % name for name in NAMES}
    done = subprocess.run(
        [str(environment.python), "-S", "-B", "-c", AUDIT], env=env, cwd=str(tmp_path), capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stderr.count("Xq7Mark") >= 1, done.stderr
    seen = json.loads(done.stdout)
    assert seen["imported"] and seen["opened"]
    assert "Xq7Mark" not in seen["text"]
    assert set(seen["kinds"]) <= HARMLESS
    writing = 0o1 | 0o2 | 0o100 | 0o1000  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC
    for path, mode, flags in seen["opened"]:
        assert not flags & writing and not set(mode) & set("wax+"), path
        assert any(Path(prefix) in Path(path).parents for prefix in seen["prefixes"]), path


def _lines_to_delete_the_file():
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    [line] = re.findall(r"```sh\n(.*)\n```", page)
    return line


def test_without_the_file_an_import_still_works_and_uninstalling_leaves_nothing(distributions, tmp_path):
    environment = Environment(tmp_path / "env", NEWEST)
    run(environment.python, "-m", "pip", "install", "--no-deps", distributions.wheel)
    assert environment.start("1")[0]["hooks"] == 1
    run("sh", "-c", _lines_to_delete_the_file(), env={"PATH": "%s:/usr/bin:/bin" % environment.python.parent})
    assert environment.start("1") == ({"imported": [], "hooks": 0}, "")
    assert environment.start("1", first="import tfls_patch\n")[0] == {"imported": ["tfls_patch"], "hooks": 1}
    run(environment.python, "-m", "pip", "uninstall", "--yes", "tfls-patch")
    assert environment.leftovers() == []
