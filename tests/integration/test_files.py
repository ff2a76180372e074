"""Files move freely: what one process has written another reads, with the patch in both, in one or in neither."""

import json
import os
import signal

import pytest

import file_notes
from versions import VERSION

#: The newest Keras 3 and tf_keras, where also the rest runs that runs once, and the oldest with a state of its own.
MARKS = [] if VERSION == (2, 4) else [pytest.mark.once]


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_files_keep_what_they_keep_without_the_patch_and_training_goes_on(scenario, tmp_path, mode):
    folders = {}
    for writer in file_notes.WRITERS:
        folders[writer] = tmp_path / ("written by " + writer)
        scenario("files", "write", writer, mode, str(folders[writer]))
    for reader in file_notes.READERS:
        scenario("files", "read", reader, mode, *map(str, folders.values()))
    complaints = file_notes.complaints(folders)
    assert not complaints, "\n".join(complaints)
    for name, note in file_notes.load(folders["patched"], "written").items():
        assert all(name in file_notes.load(folders["patched"], "read by " + reader) for reader in file_notes.READERS)
        assert note["state"][:2] == [2.0**-3, 2], (name, "the patched writer was to be below the floor of stock")


def _log(path):
    """Returns ``{step: [scale, counter, weight]}``, and the first step."""
    with open(str(path)) as file:
        lines = [json.loads(line) for line in file]
    return dict((step, state) for step, state in lines), lines[0][0]


@pytest.mark.parametrize("way", [pytest.param(way, marks=MARKS) for way in ("manager", "backup")])
@pytest.mark.parametrize("legacy", [None, pytest.param("1", marks=pytest.mark.once)])
def test_training_that_is_killed_goes_on_as_if_it_had_not_been(python, tmp_path, way, legacy):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scenarios", "killed.py")

    def train(kill_at, folder, log):
        arguments = [script, way, "32", str(kill_at), str(tmp_path / folder), str(tmp_path / log)]
        return python(*arguments, TF_USE_LEGACY_KERAS=legacy)

    whole = train(-1, "whole", "whole.txt")
    assert whole.returncode == 0, whole.stderr[-4000:]
    killed = train(22, "killed", "killed.txt")
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-4000:]
    resumed = train(-1, "killed", "resumed.txt")
    assert resumed.returncode == 0, resumed.stderr[-4000:]

    (before, _), (until, _), (after, first) = (
        _log(tmp_path / name) for name in ("whole.txt", "killed.txt", "resumed.txt")
    )
    assert max(until) == 22 and first == 20, (until, after)
    assert before[20][0] < 1 and before[20][1] == 1, before[20]
    assert after == {step: state for step, state in before.items() if step >= 20}, (before, after)
