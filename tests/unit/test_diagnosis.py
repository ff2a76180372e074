"""What a diagnosis concludes from what it has seen."""

import pytest

from tfls_patch._diagnosis import Diagnosis

INF, NAN = float("inf"), float("nan")


def seen(*steps, **options):
    """Makes a diagnosis of ``(loss, scale, is a gradient bad)``."""
    diagnosis = Diagnosis()
    for loss, scale, is_bad in steps:
        diagnosis.note_loss(OWNER, loss)
        diagnosis.note_gradients(OWNER, options.get("floor", 0.25), ["kernel", "bias"], scale, [is_bad, False])
    return diagnosis


class Owner(object):
    """Stands for what holds a loss scale."""


OWNER, OTHER = Owner(), Owner()


@pytest.mark.parametrize(
    "steps, begins",
    [
        ([], "no step"),
        ([(1.0, 2.0, False)], "not stuck"),
        ([(1.0, 2.0, True), (INF, 1.0, True)], "not stuck"),
        ([(1.0, 0.5, False)] + [(NAN, 0.25, True)] * 5, "the forward pass"),
        ([(1.0, 0.25, True)] + [(INF, 0.25, True)] * 2, "the forward pass"),
        ([(1.0, 0.25, True)] * 2 + [(INF, 0.25, True)], "the backward pass"),
        ([(1.0, 0.5, False)] + [(5e3, 0.25, True)] * 5, "the training diverges"),
        ([(0.0, 0.5, False)] + [(0.0, 0.25, True)] * 5, "the backward pass"),
        ([(1.0, 0.5, False)] + [(NAN, 0.25, True)] * 5 + [(1.0, 0.25, False)], "not stuck: 5 steps"),
    ],
)
def test_the_conclusion(steps, begins):
    diagnosis = seen(*steps)
    assert str(diagnosis).splitlines()[-1].startswith("=> " + begins)
    assert diagnosis.is_stuck() == (not begins.startswith("no"))


def test_the_report_counts():
    text = str(seen((1.0, 0.5, False), (2.0, 0.5, True), (NAN, 0.25, True)))
    assert "3 steps seen, 2 of them skipped" in text
    assert "0.5 (2^-1) at first, 0.25 (2^-2) at last, 0.25 (2^-2) at the lowest" in text
    assert "1 skipped, 1 of these" in text and "1 at first, 2 at last" in text
    assert "2 times: the gradient of kernel" in text and "bias" not in text


def test_two_optimizers_do_not_mix():
    diagnosis = Diagnosis()
    for loss in (1.0, 2.0):
        diagnosis.note_loss(OTHER, NAN)
        diagnosis.note_loss(OWNER, loss)
        diagnosis.note_gradients(OWNER, 0.25, ["generator"], 0.25, [True])
        diagnosis.note_gradients(OTHER, 0.5, ["discriminator"], 4.0, [False])
    one, other = str(diagnosis).split("loss scale 2: ")
    assert one.startswith("tfls_patch diagnose: 2 loss scales seen\nloss scale 1: 2 steps seen, 2 of them skipped\n")
    assert "the gradient of generator" in one and "=> the backward pass" in one and diagnosis.is_stuck()
    assert other.startswith("2 steps seen, 0 of them skipped") and "=> not stuck" in other


def test_a_loss_that_nobody_claims_goes_to_the_next_step():
    diagnosis = Diagnosis()
    diagnosis.note_loss(None, INF)
    diagnosis.note_gradients(OWNER, 0.25, ["kernel"], 0.25, [True])
    assert "=> the forward pass" in str(diagnosis)


def test_compiled_steps_are_not_seen():
    diagnosis = Diagnosis()
    diagnosis.is_compiled = True
    assert "jit_compile" in str(diagnosis)


def test_a_loop_that_does_not_scale_its_loss_is_told_so():
    diagnosis = Diagnosis()
    diagnosis.note_gradients(OWNER, 0.25, ["kernel"], 0.25, [True])
    assert "scale_loss()" in str(diagnosis)


def test_the_kill_switch_is_named(monkeypatch):
    monkeypatch.setenv("TFLS_PATCH", "0")
    assert "kill switch" in str(Diagnosis())
