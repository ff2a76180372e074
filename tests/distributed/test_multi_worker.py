"""Real processes on this machine, joined by ``MultiWorkerMirroredStrategy``; one of them overflows."""

import os
import site
import sys

import pytest
from cluster import reports
from versions import KERAS_3, VERSION

RATE = 2.0**-10

pytestmark = pytest.mark.skipif(VERSION < (2, 2), reason="loss scaling in a loop over several workers: TF 2.2 on")

#: For each step the worker that overflows, -1 for none: each alone, down to the floor and there, and growth.
SCRIPT = [0, 1, 1, -1, 1, 0, 1, 1, -1, -1, -1, -1]
#: What ends a job of Keras 3 with a worker that is not patched.
MISMATCH = "but got type"
#: What stock Keras 3 says in `fit` under several workers, before the first step.
STOCK_FAILS_IN_FIT = "with an unsupported type (<class 'tensorflow.python.distribute.values.PerReplica'>) to a Tensor"


# The optimizer sums the gradients of the workers, and each is 1.
def reference(script, workers, low=2.0**-4, scale=4.0, interval=3, regrow=3):
    good, weight, states = 0, 1.0, []
    for bad in script:
        if bad < 0:
            good, weight = good + 1, weight - workers * RATE
            if good == (min(interval, regrow) if scale < 1 else interval):
                good, scale = 0, scale * 2
        else:
            good, scale = 0, max(scale / 2, low)
        states.append([scale, good, weight])
    return states


@pytest.mark.parametrize("count", [2, 3])
def test_one_worker_overflows_and_all_skip(job, found, count):
    script = SCRIPT + ([2, 2] if count == 3 else []) + [-1]
    for report in reports(job(count, script=script, patched=list(range(count)))):
        assert report["states"] == reference(script, count), report
    found("workers: custom loop", "works")


def test_fit_survives_the_bad_batches_of_one_worker(job, found):
    script, name = [-1] * 3 + [1] * 9 + [-1] * 3, "workers: fit"
    if KERAS_3:
        for patched in ([], [0, 1]):
            workers = job(2, script=script, patched=patched, fit=True)
            assert all(STOCK_FAILS_IN_FIT in worker.stderr for worker in workers), workers[0].stderr[-2000:]
        found(name, "stock fails")
        return
    first, second = reports(job(2, script=script, patched=[0, 1], fit=True))
    assert first == second and first["scale"] == 2.0**6, (first, second)
    # The batches of which one worker has nothing good are as if they had not been: bit for bit.
    undisturbed = reports(job(2, script=[-1] * 6, patched=[0, 1], fit=True))[0]
    assert first["weights"] == undisturbed["weights"] and undisturbed["scale"] == 2.0**15
    found(name, "works")


def test_a_killed_worker_and_a_restart_from_the_checkpoint_change_nothing(job, tmp_path, found):
    arguments = dict(script=SCRIPT, patched=[0, 1], checkpoints=str(tmp_path / "checkpoints"))
    killed = job(2, killed=[1, 8], timeout=60, **arguments)
    assert killed[1].returncode < 0 and not killed[0].report(), "the job went on without the worker that was killed"
    for report in reports(job(2, **arguments)):
        assert 0 < report["first"] <= 8, report
        assert report["states"] == reference(SCRIPT, 2)[report["first"] :], report
    found("workers: killed and restarted", "works")


@pytest.mark.parametrize("how", ["environment", "run"])
def test_the_environment_variable_patches_every_worker(job, how):
    if how == "environment":
        assert _start_up_file(), "the installed wheel is to be tested: use `nox -s distributed`"
        workers = job(2, environments=[{"TFLS_PATCH": "1", "TFLS_PATCH_MIN_SCALE": "0.0625"}] * 2, script=SCRIPT)
    else:
        workers = job(2, prefix=["-m", "tfls_patch", "run", "--min-scale", "0.0625"], script=SCRIPT)
    for report in reports(workers):
        assert report["is_patched"] and report["states"] == reference(SCRIPT, 2), report


def _start_up_file():
    folders = site.getsitepackages() if hasattr(site, "getsitepackages") else sys.path
    return any(os.path.exists(os.path.join(folder, "tfls_patch.pth")) for folder in folders)


def test_workers_with_different_floors_take_the_same_steps(job):
    """Each has its own scale then. But the verdict is of all, and gradients are unscaled before they are added up."""
    floors = [0.5, 2.0**-4]
    for report, floor in zip(reports(job(2, script=SCRIPT, patched=[0, 1], min_scale=floors)), floors):
        assert report["states"] == reference(SCRIPT, 2, low=floor), report


def test_workers_that_regrow_at_different_rates_take_the_same_steps(job):
    script = SCRIPT + [-1] * 6
    ends = set()
    for report, steps in zip(reports(job(2, script=script, patched=[0, 1], regrow_steps=[1, 2])), [1, 2]):
        assert report["states"] == reference(script, 2, regrow=steps), report
        ends.add(report["states"][-1][0])
    assert len(ends) == 2, "the scales were to differ"


def test_a_worker_that_is_not_patched_cannot_make_weights_differ(job, found):
    workers = job(2, script=[-1] + SCRIPT, patched=[0], timeout=60)
    if KERAS_3:
        # Its collective operations are others than ours, and TensorFlow says so at the first step.
        assert not any(worker.report() for worker in workers)
        assert any(MISMATCH in worker.stderr for worker in workers), [worker.stderr[-2000:] for worker in workers]
        found("workers: one is not patched", "error at the first step")
        return
    for report, floor in zip(reports(workers), [2.0**-4, 1.0]):
        assert report["states"] == reference([-1] + SCRIPT, 2, low=floor), report
    found("workers: one is not patched", "same weights; it stops at 1")


@pytest.mark.skipif(KERAS_3, reason="on Keras 3 such a job ends at the first step")
def test_the_message_at_the_floor_names_a_worker_that_is_not_patched(job):
    stuck = job(2, script=[1] * 12, patched=[0], at_floor="raise", timeout=60)[0]
    assert not stuck.report() and "another worker is not patched" in stuck.stderr, stuck.stdout + stuck.stderr[-3000:]


def test_what_stock_does_when_one_worker_overflows(job, found):
    """Keras 3 asks each worker for its own verdict; the one that takes the step waits for the one that does not."""
    assert all(report["states"][-1][2] < 1.0 for report in reports(job(2, script=[-1, -1])))
    workers = job(2, script=[-1, 1, -1], timeout=40)
    if KERAS_3:
        assert not any(worker.report() for worker in workers), "stock does not hang any more"
        found("workers: stock", "hangs")
    else:
        for report in reports(workers):
            assert report["states"] == reference([-1, 1, -1], 2), report
        found("workers: stock", "skips, down to a scale of 1")
