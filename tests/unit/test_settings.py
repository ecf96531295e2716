"""Settings take values of the right type within their bounds, and name what is wrong with others."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from spark_trickle.errors import SettingError
from spark_trickle.settings import Settings, list_setting_names, list_setting_rows
from tests.unit.sql.marked import bug

CONVERTED: list[tuple[str, Any, Any]] = [
    ("max_driver_rows", 5, 5),
    ("max_driver_rows", "5", 5),
    ("max_driver_rows", " 5 ", 5),
    ("retain_hours", 5, 5.0),
    ("retain_hours", 2.5, 2.5),
    ("retain_hours", "2.5", 2.5),
    ("retain_hours", "0", 0.0),
    ("auto_compact", False, False),
    ("auto_compact", "false", False),
    ("auto_compact", "TRUE", True),
    ("compression", "snappy", "snappy"),
    bug("compression", "SNAPPY", "snappy", reason="SET keeps the letters that the user typed"),
]


@pytest.mark.parametrize(("name", "given", "value"), CONVERTED)
def test_conversion(name: str, given: Any, value: Any) -> None:
    found = Settings().with_values({name: given}).as_dict()[name]
    assert found == value
    assert type(found) is type(value)


WRONG: list[tuple[str, Any, str]] = [
    ("max_driver_rows", 0, "outside 1 to 1000000000000"),
    ("max_driver_rows", "0", "outside 1 to 1000000000000"),
    ("max_driver_rows", 2.5, "expected int, got 2.5"),
    ("max_driver_rows", "2.5", '"2.5" is not a number'),
    ("max_driver_rows", "many", '"many" is not a number'),
    ("max_driver_rows", "", '"" is not a number'),
    ("max_driver_rows", True, "expected int, got True"),
    ("max_driver_rows", None, "expected int, got None"),
    ("retain_hours", -1, "outside 0 to"),
    ("retain_hours", "nan", "nan is outside"),
    ("retain_hours", "long", "is not a number"),
    ("commit_retries", 1_001, "outside 0 to 1000"),
    ("commit_retries", -1, "outside 0 to 1000"),
    ("compact_change_files", 1, "outside 2 to 1000000000000"),
    ("default_schedule_seconds", 1e12, "outside 0.01 to 315360000"),
    *[("max_driver_rows", text, "is not a number") for text in ("²", "٣", "１２", "½", "9" * 5_000)],
    *[("driver_megabytes", text, "is not a number") for text in ("²", "٣", "1\u00a02", "5L")],
    *[("driver_megabytes", huge, "is outside") for huge in (float("inf"), 10**400, -(10**400), "1e300")],
    *[("max_driver_rows", huge, "is outside") for huge in (10**13, 10**400, "9" * 400)],
    ("auto_compact", "yes", '"yes" is neither true nor false'),
    ("auto_compact", 1, "expected bool, got 1"),
    ("compression", "brotli", '"brotli" is not one of zstd'),
    ("compression", 5, "expected str, got 5"),
    bug("retain_hours", "inf", "outside", reason="VACUUM cannot go back an infinite time"),
]


@pytest.mark.parametrize(("name", "value", "detail"), WRONG)
def test_wrong_values_are_refused(name: str, value: Any, detail: str) -> None:
    with pytest.raises(SettingError) as caught:
        Settings().with_values({name: value})
    assert caught.value.name == name
    assert detail in caught.value.message


@pytest.mark.parametrize(
    ("name", "value"), [("max_driver_rows", 0), ("auto_compact", "yes"), ("compression", "x")]
)
def test_the_hint_of_a_wrong_value_is_about_the_value(name: str, value: Any) -> None:
    with pytest.raises(SettingError) as caught:
        Settings().with_values({name: value})
    assert "Did you mean" not in caught.value.hint
    assert "no settings" not in caught.value.hint


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("max_driver_row", 'Did you mean "max_driver_rows"?'),
        ("Compression", 'Did you mean "compression"?'),
        ("xyz", "The settings are allow_circular, auto_backoff, auto_compact"),
    ],
)
def test_wrong_names_are_refused(name: str, hint: str) -> None:
    with pytest.raises(SettingError, match="there is no such setting") as caught:
        Settings().with_values({name: 1})
    assert caught.value.hint.startswith(hint)


def test_several_values_change_together_and_the_rest_stays() -> None:
    first = Settings().with_values({"commit_retries": 3})
    second = first.with_values({"compression": "gzip", "retain_hours": 1})
    assert (second.commit_retries, second.compression, second.retain_hours) == (3, "gzip", 1.0)
    assert first.compression == Settings().compression
    assert second.with_values({}) == second


def test_settings_do_not_change_under_a_statement() -> None:
    with pytest.raises(FrozenInstanceError):
        Settings().commit_retries = 1  # type: ignore[misc]


def test_every_setting_is_described() -> None:
    rows = list_setting_rows()
    assert tuple(name for name, _, _ in rows) == list_setting_names()
    assert len(set(list_setting_names())) == len(rows)
    for name, default, meaning in rows:
        assert default == str(Settings().as_dict()[name])
        assert meaning[0].isupper()
        assert meaning.endswith(".")


def test_a_narrow_change_may_have_more_rows() -> None:
    rows = {columns: Settings().max_change_rows(columns) for columns in (0, 1, 5, 10, 20, 50)}
    assert rows == {0: 2_000_000, 1: 2_000_000, 5: 2_000_000, 10: 1_000_000, 20: 500_000, 50: 500_000}
