"""What the demonstrations say of their runs, and what they train on; no TensorFlow."""

import numpy as np
import pytest

from tfls_patch.demo import arms, data, networks, report

FOUND = arms.Found("2.21.0", "3.15.1", has_tf_keras=True)


def a_run(loss=1.0, scales=(32768.0, 2.0**-5, 0.5), applied=True, is_finite=True):
    return {
        "loss": [loss] * len(scales),
        "scale": list(scales),
        "applied": [applied] * len(scales),
        "final_scale": scales[-1],
        "validation_loss": loss,
        "weights_changed": applied,
        "weights_finite": is_finite,
    }


def world_and_results(experiment="hourglass", key="floor", **changed):
    """Returns a world, and runs with two seeds that show all that is expected; `changed` are other runs."""
    worlds, _ = arms.plan(arms.EXPERIMENTS[experiment], FOUND, steps=100)
    world = {each.key: each for each in worlds}[key]
    results = {name: [a_run(), a_run()] for name in world.arms}
    results["stock"] = [a_run(60.0, (2.0, 1.0, 1.0), applied=False)] * 2
    if key == "no_floor":
        results["stock"] = [a_run(float("nan"), (1.0, 0.0, 0.0), is_finite=False)] * 2
    results.update(changed)
    return world, results


def failures(**changed):
    return report.judge(*world_and_results(**changed)).failures


@pytest.mark.parametrize("experiment", ["digits", "hourglass"])
@pytest.mark.parametrize("key", ["floor", "no_floor"])
def test_a_demonstration_that_shows_everything_has_no_failures(experiment, key):
    assert failures(experiment=experiment, key=key) == []


@pytest.mark.parametrize(
    "changed, expected",
    [
        ({"stock": [a_run(), a_run(60.0, (2.0, 1.0, 1.0), applied=False)]}, "never changes a weight"),
        ({"patched": [a_run(1.0), a_run(1.11)]}, "within 5 %"),
        ({"patched": [a_run(), a_run(float("nan"))]}, "within 5 %"),
        ({"patched": [a_run(), a_run(is_finite=False)]}, "finite weights"),
        ({"patched": [a_run(scales=(1.0, 0.125, 0.5)), a_run()]}, "0.01 to 0.06"),
        ({"patched": [a_run(scales=(1.0, 2.0**-5, 2.0**-5)), a_run()]}, "grows again"),
        ({"float32": [a_run(), a_run(float("inf"))]}, "forward pass is finite"),
    ],
)
def test_what_is_not_seen_is_said(changed, expected):
    assert any(expected in failure for failure in failures(**changed)), failures(**changed)


def test_the_mean_over_the_seeds_is_compared_not_each_seed():
    assert failures(patched=[a_run(0.93), a_run(1.07)]) == []


def test_numbers_that_differ_between_seeds_are_shown_as_a_range():
    world, results = world_and_results(patched=[a_run(scales=(1.0, 2.0**-5, 0.5)), a_run(scales=(1.0, 2.0**-6, 2.0))])
    text = report.text(world, results, report.judge(world, results))
    assert "0.5 (2^-1) - 2 (2^1)" in text and "means over 2 seeds" in text


def test_the_session_api_has_no_arm_for_the_subclass():
    worlds, notes = arms.plan(arms.EXPERIMENTS["hourglass"], arms.Found("1.14.0", "2.2.4-tf", False), steps=100)
    assert [list(world.arms) for world in worlds] == [["float32", "stock", "patched", "by_hand"]] and len(notes) == 2


def test_the_seed_decides_what_is_trained_on(tmp_path):
    archives = []
    for number, seed in enumerate([1, 1, 2]):
        path = str(tmp_path / ("%d.npz" % number))
        data.save(path, "hourglass", seed, 5, loss_factor=1.0, growth_steps=2, bad_steps=range(2, 4))
        with np.load(path) as archive:
            archives.append(dict(archive))
    first, same, other = archives
    assert all(np.array_equal(first[name], same[name]) for name in first)
    assert not np.array_equal(first["x_train"], other["x_train"])
    assert first["bad"].tolist() == [False, False, True, True, False, False, False]
    assert sum(name.startswith("weight_") for name in first) == 2 * len(networks.Hourglass.STRIDES)
