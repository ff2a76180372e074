"""Reading versions and finding the row for them."""

import pytest

from tfls_patch import _registry
from tfls_patch._registry import release, row_for


@pytest.mark.parametrize(
    "text, expected",
    [
        ("1.14.0", (1, 14)),
        ("1.15.5+nv23.03", (1, 15)),
        ("2.22.0-rc0", (2, 22)),
        ("2.5.0-dev20210101", (2, 5)),
        ("2.11.0-rocm-custom", (2, 11)),
        ("3.16.0.dev2026102704", (3, 16)),
        ("v2.4.1", (2, 4)),
        ("2.10", (2, 10)),
        ("nightly", None),
        ("", None),
        (None, None),
    ],
)
def test_releases_of_all_kinds_of_builds(text, expected):
    assert release(text) == expected


@pytest.mark.parametrize(
    "package, text, module, is_tested",
    [
        ("tensorflow", "1.14.0", "tf_1_14", True),
        ("tensorflow", "1.15.5+nv23.03", "tf_1_15", True),
        ("tensorflow", "2.0.4", "tf_2_0", True),
        ("tensorflow", "2.3.4", "tf_2_1_to_2_3", True),
        ("tensorflow", "2.10.1", "tf_2_8_to_2_12", True),
        ("tensorflow", "2.16.0-rc0", "tf_2_16_to_2_22", True),
        ("tensorflow", "2.22.0-rc0", "tf_2_16_to_2_22", True),
        ("tensorflow", "2.23.0", "tf_2_16_to_2_22", False),
        ("tensorflow", "3.0.0", "tf_2_16_to_2_22", False),
        ("tf_keras", "2.16.0", "tf_keras_2_15_to_2_22", True),
        ("keras", "3.0.5", "keras_3", True),
        ("keras", "3.16.0.dev2026102704", "keras_3", True),
        ("keras", "4.0.0", "keras_3", False),
    ],
)
def test_the_row_of_a_version(package, text, module, is_tested):
    row, tested = row_for(package, text)
    assert (row.module, tested) == (module, is_tested)


@pytest.mark.parametrize(
    "package, text", [("tensorflow", "1.13.1"), ("tensorflow", "0.12"), ("keras", "2.4.3"), ("tensorflow", None)]
)
def test_versions_without_a_row(package, text):
    assert row_for(package, text) == (None, False)


def test_the_supported_range_in_words():
    assert _registry.supported("tensorflow") == "tensorflow >=1.14,<2.23"
