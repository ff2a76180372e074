"""Two real processes joined by Horovod: ``nox -s horovod``, which builds it."""

import json
import os
import sys

import cluster
import pytest

pytest.importorskip("horovod.tensorflow", reason="Horovod is not installed; `nox -s horovod` builds it")

RATE = 2.0**-10
SCRIPT = [0, 1, 1, -1, 1, 0, -1, -1, -1, -1]


def horovod(folder, **arguments):
    """Returns the reports of two workers, by rank."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "horovod_worker.py")
    command = ["-m", "horovod.runner.launch", "-np", "2", "--gloo", sys.executable, script, json.dumps(arguments)]
    # One process here, which starts the two: they are in its group, or end with their parent.
    finished = cluster.run(command, folder, [{}], cluster.TIMEOUT)[0]
    lines = [line.split("<stdout>:")[1] for line in finished.stdout.splitlines() if "<stdout>:{" in line]
    assert len(lines) == 2, finished.stdout + finished.stderr[-3000:]
    return sorted(map(json.loads, lines), key=lambda report: report["rank"])


def reference(low, scale=4.0, interval=3):
    """Horovod takes the mean over the workers."""
    good, weight, states = 0, 1.0, []
    for bad in SCRIPT:
        if bad < 0:
            good, weight = good + 1, weight - RATE
            if good == interval:
                good, scale = 0, scale * 2
        else:
            good, scale = 0, max(scale / 2, low)
        states.append([scale, weight])
    return states


@pytest.mark.parametrize("how", ["tape", "inside"])
def test_one_worker_overflows_and_all_skip(tmp_path, how):
    for report in horovod(tmp_path, how=how, script=SCRIPT, patched=True, settings={"min_scale": 0.25}):
        assert report["states"] == reference(0.25), report


@pytest.mark.parametrize("how", ["outside", "accumulated"])
def test_what_does_not_work_in_stock_is_no_other(tmp_path, how):
    """A wrapper around the loss scale fails; accumulation inside of it adds up gradients of different scales."""
    stock = horovod(tmp_path, how=how, script=SCRIPT, patched=False)
    patched = horovod(tmp_path, how=how, script=SCRIPT, patched=True, settings={"min_scale": 1})
    assert patched == stock, (patched, stock)
    if how == "outside":
        assert all("positional argument" in report["error"] for report in stock), stock
    else:
        assert stock[0]["states"] != stock[1]["states"], "stock's workers agree now: say so in docs/distributed.md"


def test_the_message_at_the_floor_names_a_buffer_that_keeps_an_inf(tmp_path):
    settings = {"min_scale": 1, "at_floor": "raise", "patience": 2}
    script = [0] + [-1] * 9
    for report in horovod(tmp_path, how="never cleared", script=script, patched=True, settings=settings):
        assert [state[1] for state in report["states"]] == [1.0] * 3, report
        assert "accumulated gradients that were never cleared" in report["error"], report
