"""The contract on a real TensorFlow: each scenario in a process of its own, mostly a fork (see ``scenarios/``)."""

import json
import os

import pytest

# The version is read in a process of its own: this one must stay without TensorFlow, to be quick and clean.
from cluster import reports, train
from versions import KERAS_3, VERSION

#: Whatever depends on how a TensorFlow imports its parts is tried on each of them; the rest once, on the newest.
ORDERS = ["tensorflow first, keras late", "keras first", "hooks import nothing", "threads"]
ORDERS_TRIED_ONCE = ["ours first", "tensorflow first", "compat.v1", "apply first", "reverted before", "killed"]


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_every_surface_follows_the_rule_and_costs_no_more_than_stock(scenario, mode):
    print(scenario("rule", mode))


#: Random scripts for each surface. Most versions share theirs with many others; these have some of their own.
SCRIPTS = "200" if VERSION in [(1, 14), (1, 15), (2, 4), (2, 10)] else "60"


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("count", [SCRIPTS, pytest.param("1000", marks=pytest.mark.once)])
def test_random_scripts_go_as_the_reference_and_with_a_floor_of_1_as_stock(scenario, tmp_path, mode, count):
    _conform(scenario, mode, str(tmp_path / "stock.json"), count)


@pytest.mark.once
def test_random_scripts_go_as_the_reference_on_jax(scenario_from_the_start, tmp_path):
    _conform(scenario_from_the_start, "jax", str(tmp_path / "stock.json"), "200")


def _conform(scenario, mode, path, count):
    # Other scripts for each version, and the same ones each time: what passes here must not fail by chance elsewhere.
    seed = str(100 * VERSION[0] + VERSION[1])
    scenario("conformance", mode, "stock", path, seed, count)  # in a process that never imports the patch
    print(scenario("conformance", mode, "patched", path, seed, count))


def test_stalled_training_goes_on_when_patched(scenario):
    scenario("stall")


def test_revert_gives_back_the_very_originals(scenario_from_the_start):
    scenario_from_the_start("revert")


def test_instances_subclasses_configs_and_copies_go_on_working(scenario):
    scenario("instances")


@pytest.mark.parametrize("order", ORDERS + [pytest.param(each, marks=pytest.mark.once) for each in ORDERS_TRIED_ONCE])
def test_the_patch_is_in_place_whatever_is_imported_first(scenario_from_the_start, order):
    scenario_from_the_start("imports", order)


def test_nothing_is_said_that_stock_does_not_say(scenario_from_the_start):
    scenario_from_the_start("quiet")


def test_float16_operands_are_scaled_exactly_down_to_the_smallest_scale(scenario):
    scenario("float16")


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_skipped_steps_are_recorded_and_the_policy_at_the_floor_followed(scenario, mode):
    scenario("skips", mode)


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_records_and_policies_hold_in_real_training(scenario, mode):
    scenario("training", mode)


@pytest.mark.skipif(
    VERSION < (1, 15) or VERSION == (2, 0), reason="tf.function can compile in TF 1.15, and from 2.1 on"
)
def test_steps_that_xla_compiles_follow_the_rule(scenario):
    scenario("xla")


def test_scales_that_make_no_sense_get_a_warning_unless_stock_refuses_them(scenario):
    scenario("construction")


@pytest.mark.skipif(not KERAS_3, reason="the methods are those of Keras 3")
def test_keras_3_subclasses_get_and_pass_what_they_would_in_stock(scenario):
    scenario("overrides")


@pytest.mark.thorough
@pytest.mark.skipif(not KERAS_3, reason="the guard is for Keras 3")
@pytest.mark.parametrize("growths", ["1000", pytest.param("1000000", marks=pytest.mark.once)])
def test_nothing_makes_keras_3_poison_its_weights(scenario, growths):
    scenario("guard", growths)


@pytest.mark.skipif(not (2, 1) <= VERSION < (2, 8), reason="TF 2.1 - 2.7 have LossScaleGradientTape")
def test_the_gradient_tape_retries_down_to_the_floor(scenario):
    scenario("tape")


@pytest.mark.skipif(VERSION < (2, 1), reason="MirroredStrategy takes loss scaling in a custom loop from TF 2.1 on")
def test_replicas_agree(scenario):
    scenario("mirrored", "2")


@pytest.mark.thorough
def test_each_strategy_of_one_process_does_what_it_does_in_stock(scenario):
    scenario("strategies")


@pytest.mark.once
@pytest.mark.parametrize("legacy", [None, "1"])
def test_workers_in_processes_of_their_own_agree(tmp_path, legacy):
    """The rest of it is in tests/distributed, which takes minutes."""
    environments = [{"TF_USE_LEGACY_KERAS": legacy} if legacy else {}] * 2
    script, patched = [0, 1, -1, 1], [0, 1]
    for report in reports(train(2, tmp_path, environments=environments, script=script, patched=patched)):
        assert report["states"] == [[2.0, 0, 1.0], [1.0, 0, 1.0], [1.0, 1, 1 - 2.0**-9], [0.5, 0, 1 - 2.0**-9]], report


@pytest.mark.once
def test_every_way_of_running_a_step_gives_the_same(scenario):
    scenario("ways")


@pytest.mark.once
def test_a_long_run_follows_the_reference(scenario):
    scenario("long_run", "100000")


def test_what_is_unknown_is_refused_and_left_alone(scenario):
    scenario("refused")


def test_another_patcher_on_the_same_method_and_reloaded_modules(scenario):
    scenario("patchers")


@pytest.mark.once
def test_strict_mode_fails_the_import_of_an_unsupported_build(python):
    code = (
        "import tfls_patch\n"
        "from tfls_patch import _registry\n"
        "_registry.TABLE = _registry.TABLE[:1] + tuple(r for r in _registry.TABLE if r.package != 'tensorflow')\n"
        "release = _registry.release\n"  # the ends of ranges, which are a.b, stay what they are
        "_registry.release = lambda text: (1, 13) if text.count('.') > 1 else release(text)\n"
        "for attempt in (1, 2):\n"
        "    try:\n"
        "        import tensorflow\n"
        "    except tfls_patch.UnsupportedVersionError as error:\n"
        "        print('refused', attempt)\n"
    )
    assert python("-c", code, TFLS_PATCH_STRICT="1").stdout.split() == ["refused", "1", "refused", "2"]
    relaxed = python("-c", code, PYTHONWARNINGS="default")
    assert relaxed.returncode == 0 and "refused" not in relaxed.stdout
    assert len([line for line in relaxed.stderr.splitlines() if "TflsPatchWarning" in line]) <= 2


def test_status_on_the_command_line(python):
    finished = python("-m", "tfls_patch", "status", "--json")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    status = json.loads(finished.stdout[finished.stdout.index("{") :])
    assert status["min_scale"] == {"value": 2.0**-14, "source": "default"}
    assert {target["state"] for target in status["targets"]} <= {"patched", "absent", "pending"}
    tensorflow = status["packages"][0]
    assert tensorflow["name"] == "tensorflow" and tensorflow["found"] == "imported"
    assert tuple(int(part) for part in tensorflow["version"].split(".")[:2]) == VERSION


@pytest.mark.once
def test_status_names_the_kill_switch(python):
    killed = python("-m", "tfls_patch", "status", TFLS_PATCH="0")
    assert killed.returncode == 1 and "kill switch" in killed.stdout


def _doctor(finished):
    """Returns ``{check: [its findings]}`` of a report in JSON."""
    report, checks = json.loads(finished.stdout), {}
    for finding in report["checks"]:
        checks.setdefault(finding["name"], []).append(finding)
    assert report["healthy"] == (finished.returncode == 0), finished.stdout
    return checks


def test_the_doctor_finds_a_healthy_environment_and_proves_every_target(python):
    # A policy that would have the proof itself raise.
    policy = {"TFLS_PATCH_AT_FLOOR": "raise", "TFLS_PATCH_PATIENCE": "1"}
    finished = python("-m", "tfls_patch", "doctor", "--json", TFLS_PATCH="1", **policy)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    checks = _doctor(finished)
    assert [finding["state"] for finding in checks["tensorflow"] + checks["targets"] + checks["start-up file"]] == (
        ["ok"] * 3
    )
    assert "tensorflow" in checks["tensorflow"][0]["found"].split("from ")[-1], "no distribution was found"
    assert checks["pins"], "TensorFlow asks for wrapt"
    driven = [finding for finding in checks["overflow"] if finding["state"] == "ok"]
    assert len(driven) >= 4 and all("weight untouched" in finding["found"] for finding in driven)
    missed = [finding["found"] for finding in checks["overflow"] if finding["state"] != "ok"]
    assert all("through _stateless_handle_finite_grads" in found for found in missed), missed


@pytest.mark.once
@pytest.mark.parametrize(
    "check, code",
    [
        ("overflow", "from tfls_patch import scaling; scaling.bounded = lambda lib, candidate, bounds: candidate"),
        ("patchers", "tf.compat.v1.mixed_precision.DynamicLossScale.update = lambda self, grads: None"),
        ("targets", "tfls_patch.revert()"),
    ],
)
def test_the_doctor_sees_what_is_broken(python, check, code):
    lines = ["import sys, tfls_patch, tensorflow as tf", code, "from tfls_patch.__main__ import main"]
    finished = python("-c", "\n".join(lines + ["sys.exit(main(['doctor', '--json']))"]))
    assert finished.returncode == 1, finished.stdout + finished.stderr
    assert "fail" in [finding["state"] for finding in _doctor(finished)[check]]


_TRAIN = """
import sys
import numpy as np, tensorflow as tf
tf.keras.mixed_precision.set_global_policy("mixed_float16")
what = sys.argv[1]
small = tf.keras.initializers.Constant(0.125)
dense = tf.keras.layers.Dense(1, kernel_initializer=small, input_shape=(2,))
model = tf.keras.Sequential([dense, tf.keras.layers.Activation("linear", dtype="float32")])
loss = (lambda t, p: tf.reduce_mean(tf.sqrt(tf.abs(p - p)))) if what == "backward" else "mse"
model.compile(tf.keras.optimizers.SGD(2.0**-6), loss=loss)
x, y = np.ones((100, 2), "float32"), np.ones((100, 1), "float32")
x[10:] = np.nan if what == "forward" else 1
model.fit(x, y, batch_size=1, epochs=1, shuffle=False, verbose=0)
print("the script has ended")
"""


@pytest.mark.once
@pytest.mark.parametrize("legacy", [None, "1"])
@pytest.mark.parametrize(
    "what, status, conclusion",
    [("forward", 1, "=> the forward pass"), ("backward", 1, "=> the backward pass"), ("fine", 0, "=> not stuck")],
)
def test_diagnose_says_why_a_training_is_stuck(python, tmp_path, legacy, what, status, conclusion):
    (tmp_path / "train.py").write_text(_TRAIN)
    finished = python(
        "-m", "tfls_patch", "diagnose", "--min-scale", "1024", "train.py", what, TF_USE_LEGACY_KERAS=legacy
    )
    assert finished.returncode == status, finished.stdout + finished.stderr
    assert conclusion in finished.stdout, finished.stdout
    assert ("the script has ended" in finished.stdout) == (status == 0)
    # Ten good steps are taken before the forward pass breaks; then five steps down to the floor, and twenty there.
    seen = {
        "forward": "35 steps seen, 25 of them",
        "backward": "25 steps seen, 25 of them",
        "fine": "100 steps seen, 0",
    }
    assert seen[what] in finished.stdout, finished.stdout


_TRAIN_TWO = """
import tensorflow as tf
is_keras_3 = hasattr(tf.keras, "ops")
wrap = (tf.keras.optimizers if is_keras_3 else tf.keras.mixed_precision).LossScaleOptimizer
optimizers = [wrap(tf.keras.optimizers.SGD(0.1)) for _ in range(2)]
weights = [tf.keras.Variable(1.0) if is_keras_3 else tf.Variable(1.0) for _ in range(2)]
for optimizer, weight in zip(optimizers, weights):
    optimizer.build([weight])

@tf.function
def step(factors):
    for optimizer, weight, factor in zip(optimizers, weights, factors):
        with tf.GradientTape() as tape:
            loss = weight * factor
            scaled = optimizer.scale_loss(loss) if is_keras_3 else optimizer.get_scaled_loss(loss)
        gradient = tape.gradient(scaled, weight.value if is_keras_3 else weight)
        if is_keras_3:
            optimizer.apply([gradient], [weight])
        else:
            optimizer.apply_gradients([(optimizer.get_unscaled_gradients([gradient])[0], weight)])

for _ in range(40):
    step((tf.constant(float("nan")), tf.constant(1.0)))
"""


@pytest.mark.once
@pytest.mark.parametrize("legacy", [None, "1"])
def test_diagnose_tells_two_optimizers_apart(python, tmp_path, legacy):
    (tmp_path / "train.py").write_text(_TRAIN_TWO)
    finished = python("-m", "tfls_patch", "diagnose", "train.py", TF_USE_LEGACY_KERAS=legacy)
    assert finished.returncode == 1, finished.stdout + finished.stderr
    bad, good = finished.stdout.split("loss scale 2: ")
    assert "40 steps seen, 40 of them" in bad and "=> the forward pass" in bad, bad
    assert good.startswith("40 steps seen, 0 of them") and "=> not stuck" in good, good


@pytest.mark.once
def test_run_runs_an_unmodified_script_patched(python, tmp_path):
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / "train.py"
    script.write_text(
        "import sys, os, helper\n"
        "import tensorflow as tf\n"
        "from tensorflow.python.training.experimental.loss_scale import DynamicLossScale\n"
        "if __name__ == '__main__':\n"
        "    home = DynamicLossScale.update.__globals__['__name__']\n"
        "    print('ARGV', sys.argv[1:], os.path.basename(sys.argv[0]), home)\n"
        "    import tfls_patch; print('MIN', tfls_patch.status().min_scale)\n"
        "    sys.exit(7)\n"
    )
    (tmp_path / "scripts" / "helper.py").write_text("")
    finished = python("-m", "tfls_patch", "run", "--min-scale", "1e-3", str(script), "--rate", "-m", "3")
    assert finished.returncode == 7, finished.stderr
    assert "ARGV ['--rate', '-m', '3'] train.py tfls_patch.patches._loss_scale_update" in finished.stdout
    assert "0.001" in finished.stdout and "argument" in finished.stdout
    finished = python("-m", "tfls_patch", "run", "-m", "train", "--min-scale", "5", PYTHONPATH=_path(script.parent))
    assert finished.returncode == 7 and "ARGV ['--min-scale', '5']" in finished.stdout, finished.stderr


def _path(folder):
    return os.pathsep.join([str(folder)] + ([os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []))


@pytest.mark.once
@pytest.mark.parametrize("legacy", [None, "1"])
def test_keras_3_and_tf_keras_are_patched_side_by_side(scenario_from_the_start, legacy):
    scenario_from_the_start("revert", TF_USE_LEGACY_KERAS=legacy)
    scenario_from_the_start("imports", "keras first", TF_USE_LEGACY_KERAS=legacy)


@pytest.mark.once
@pytest.mark.jax
def test_keras_3_on_jax_follows_the_rule(scenario_from_the_start):
    scenario_from_the_start("keras_3_backend", "jax")
