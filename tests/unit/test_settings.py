"""Bounds: what is a scale, and where each bound comes from."""

import math

import numpy as np
import pytest

from tfls_patch import _settings
from tfls_patch._settings import Settings, checked_scale

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    "value", [1, 1e-4, 2.0**-126, 2.0**126, np.float16(0.5), np.float32(3), np.float64(2), np.int64(4)]
)
def test_numbers_and_numpy_scalars_are_scales(value):
    assert checked_scale("min_scale", value) == float(np.float32(value))


def test_a_scale_is_what_float32_makes_of_it():
    assert checked_scale("min_scale", 1e-4) == float(np.float32(1e-4)) != 1e-4


class Odd(object):
    def __repr__(self):
        raise RuntimeError("no repr")


@pytest.mark.parametrize(
    "value", [True, False, "1e-4", b"1", None, [1.0], (1.0,), np.array(1.0), np.array([1.0]), 1j, Odd()]
)
def test_what_is_no_number_is_a_type_error_that_names_argument_value_and_range(value):
    with pytest.raises(TypeError) as caught:
        checked_scale("max_scale", value)
    text = str(caught.value)
    assert "max_scale" in text and "2**-126" in text and "2**126" in text and type(value).__name__ in text


@pytest.mark.parametrize(
    "value", [0, 0.0, -1, -1e-4, INF, -INF, NAN, 2.0**-127, 1e-39, 2.0**127, 10**400, np.float32(INF)]
)
def test_what_is_out_of_range_is_a_value_error_that_names_argument_value_and_range(value):
    with pytest.raises(ValueError) as caught:
        checked_scale("min_scale", value)
    text = str(caught.value)
    assert "min_scale" in text and "2**-126" in text and "2**126" in text and repr(value)[:20] in text


def test_defaults():
    settings, complaints = Settings.from_environment({})
    assert settings.min_scale == (2.0**-14, "default") and settings.max_scale == (2.0**126, "default")
    assert not complaints


def test_argument_beats_environment_beats_default():
    settings, complaints = Settings.from_environment({"TFLS_PATCH_MIN_SCALE": " 0.5 ", "TFLS_PATCH_MAX_SCALE": "1024"})
    assert settings.min_scale == (0.5, "environment") and settings.max_scale == (1024.0, "environment")
    assert not complaints
    settings = settings.replaced(min_scale=0.25)
    assert settings.min_scale == (0.25, "argument") and settings.max_scale == (1024.0, "environment")
    assert settings.replaced(max_scale=2).min_scale == (0.25, "argument"), "None keeps what was set"


def test_a_floor_above_the_ceiling_is_refused():
    settings = Settings.from_environment({})[0]
    with pytest.raises(ValueError, match="min_scale.*max_scale"):
        settings.replaced(min_scale=2, max_scale=1)
    with pytest.raises(ValueError, match="min_scale=8.0 with max_scale=4.0"):
        settings.replaced(max_scale=4).replaced(min_scale=8)
    assert settings.replaced(min_scale=1, max_scale=1).rule[:2] == (1.0, 1.0)


@pytest.mark.parametrize(
    "text", ["abc", "0", "-1", "nan", "inf", "1e-50", "1e50", "0x10", "1,5", "1e-4;rm", "\u0661e-4 "]
)
def test_a_bad_variable_is_complained_of_and_ignored(text):
    settings, complaints = Settings.from_environment({"TFLS_PATCH_MIN_SCALE": text})
    if settings.min_scale.source == "default":
        assert len(complaints) == 1 and "TFLS_PATCH_MIN_SCALE" in complaints[0] and "such as 1e-4" in complaints[0]
        assert "\n" not in complaints[0]
    else:  # Python reads digits of every script
        assert settings.min_scale.value == float(np.float32(float(text)))


def test_variables_that_contradict_each_other_are_both_ignored():
    settings, complaints = Settings.from_environment({"TFLS_PATCH_MIN_SCALE": "4", "TFLS_PATCH_MAX_SCALE": "2"})
    assert settings.rule[:2] == (2.0**-14, 2.0**126) and len(complaints) == 1


@pytest.mark.parametrize(
    "name, good, bad, of_wrong_type",
    [
        ("regrow_steps", [0, 1, 50, np.int32(7), 2**31 - 1], [-1, 2**31], [True, 1.0, "5", None, [1]]),
        ("patience", [1, 1000, np.int64(3)], [0, -5, 10**20], [False, 2.5, "5", None]),
        ("at_floor", ["skip", "warn", "raise"], ["", "Raise", "ignore"], [1, True, None, b"warn"]),
    ],
)
def test_the_other_settings_name_the_argument_the_value_and_what_is_allowed(name, good, bad, of_wrong_type):
    settings = Settings.from_environment({})[0]
    for value in good:
        assert getattr(settings.replaced(**{name: value}), name) == (value, "argument")
    for values, error in ((bad, ValueError), (of_wrong_type, TypeError)):
        for value in values:
            if value is None:  # keeps what was set
                continue
            with pytest.raises(error) as caught:
                settings.replaced(**{name: value})
            allowed = "'skip', 'warn', 'raise'" if name == "at_floor" else "a whole number of steps"
            assert name in str(caught.value) and repr(value)[:9] in str(caught.value) and allowed in str(caught.value)


def test_the_other_settings_have_variables_too():
    variables = {"TFLS_PATCH_REGROW_STEPS": "50", "TFLS_PATCH_AT_FLOOR": " Warn", "TFLS_PATCH_PATIENCE": "7"}
    settings, complaints = Settings.from_environment(variables)
    assert settings.rule[2:] == (50, "warn", 7) and not complaints
    variables = {"TFLS_PATCH_REGROW_STEPS": "1.5", "TFLS_PATCH_AT_FLOOR": "stop", "TFLS_PATCH_PATIENCE": "0"}
    settings, complaints = Settings.from_environment(variables)
    assert settings.rule[2:] == (0, "skip", 100) and len(complaints) == 3
    for variable, complaint in zip(variables, complaints):
        assert complaint.startswith(variable) and "must be" in complaint and "such as" in complaint


@pytest.mark.parametrize(
    "text, expected", [("1", True), ("TRUE", True), (" yes ", True), ("on", True), ("y", True), ("t", True)]
)
def test_words_that_arm(text, expected):
    assert _settings.switch({"TFLS_PATCH": text}) is True and not _settings.killed({"TFLS_PATCH": text})


@pytest.mark.parametrize("text", ["0", "False", "no", "OFF ", "n", "f"])
def test_words_that_kill(text):
    assert _settings.switch({"TFLS_PATCH": text}) is False and _settings.killed({"TFLS_PATCH": text})


@pytest.mark.parametrize("text, expected", [("", None), ("  ", "  "), ("2", "2"), ("1\u00a0", "1\u00a0")])
def test_other_words_neither_arm_nor_kill(text, expected):
    assert _settings.switch({"TFLS_PATCH": text}) == expected and not _settings.killed({"TFLS_PATCH": text})


def test_children_inherit_what_is_in_force():
    environ = {}
    settings = Settings.from_environment({})[0].replaced(min_scale=1e-4, regrow_steps=5, at_floor="warn", patience=9)
    _settings.export(settings, environ)
    assert Settings.from_environment(environ)[0].rule == (float(np.float32(1e-4)), 2.0**126, 5, "warn", 9)
    assert _settings.switch(environ) is True
    killed = {"TFLS_PATCH": "0"}
    _settings.export(Settings.from_environment({})[0], killed)
    assert killed == {"TFLS_PATCH": "0"}


def test_the_default_floor_and_its_reciprocal_are_normal_float16():
    info = np.finfo(np.float16)
    assert _settings.DEFAULT_MIN_SCALE == float(info.tiny) and 1 / _settings.DEFAULT_MIN_SCALE < float(info.max)
    assert math.log2(_settings.DEFAULT_MIN_SCALE) % 1 == 0
