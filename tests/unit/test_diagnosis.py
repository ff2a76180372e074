"""What a diagnosis concludes from what it has seen."""

import pytest

from tfls_patch._diagnosis import Diagnosis

INF, NAN = float("inf"), float("nan")


def seen(*steps, **options):
    """Makes a diagnosis of ``(loss, scale, is a gradient bad)``."""
    diagnosis = Diagnosis()
    for loss, scale, is_bad in steps:
        diagnosis.note_loss(loss)
        diagnosis.note_gradients(options.get("floor", 0.25), ["kernel", "bias"], scale, [is_bad, False])
    return diagnosis


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
    assert diagnosis.conclusion().startswith(begins)
    assert str(diagnosis).splitlines()[-1].startswith("=> " + begins)


def test_the_report_counts():
    text = str(seen((1.0, 0.5, False), (2.0, 0.5, True), (NAN, 0.25, True)))
    assert "3 steps seen, 2 of them skipped" in text
    assert "0.5 (2^-1) at first, 0.25 (2^-2) at last, 0.25 (2^-2) at the lowest" in text
    assert "1 skipped, 1 of these" in text and "1 at first, 2 at last" in text
    assert "2 times: the gradient of kernel" in text and "bias" not in text


def test_compiled_steps_are_not_seen():
    diagnosis = Diagnosis()
    diagnosis.is_compiled = True
    assert "jit_compile" in diagnosis.conclusion()


def test_a_loop_that_does_not_scale_its_loss_is_told_so():
    diagnosis = Diagnosis()
    diagnosis.note_gradients(0.25, ["kernel"], 0.25, [True])
    assert "scale_loss()" in str(diagnosis)


def test_the_kill_switch_is_named(monkeypatch):
    monkeypatch.setenv("TFLS_PATCH", "0")
    assert "kill switch" in Diagnosis().conclusion()
