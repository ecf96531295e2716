"""Schedules: what is understood, what is refused, and when a cron expression comes true."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.model.schedule import Calculated, Cron, Every, parse_cron, parse_duration, parse_schedule

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)  # a Sunday


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("5m", 300),
        ("1h30m", 5400),
        ("2 minutes", 120),
        ("500ms", 0.5),
        ("1d", 86_400),
        ("1w", 604_800),
        ("3650d", 315_360_000),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_schedule(text) == Every(seconds)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1s1s", "in the wrong order"),
        ("5m5h", "in the wrong order"),
        ("1h 60m 1h", "in the wrong order"),
        ("5m1min", "in the wrong order"),
        ("cron */99999999 * * * *", 'out of range for the field "minute"'),
        ("cron * */25 * * *", 'out of range for the field "hour"'),
        ("cron " + "9" * 5000 + " * * * *", "not a valid minute"),
        ("cron ² * * * *", "not a valid minute"),
        ("²s", "not a schedule"),
    ],
)
def test_schedules_that_nobody_means_are_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidDefinitionError, match=words):
        parse_schedule(text)


@pytest.mark.parametrize("text", ["calculated", "CALCULATED", None])
def test_calculated(text: str | None) -> None:
    assert parse_schedule(text) == Calculated()


@pytest.mark.parametrize(
    ("text", "then"),
    [
        ("*/5 * * * *", datetime(2026, 11, 15, 12, 5, tzinfo=UTC)),
        ("0 * * * *", datetime(2026, 11, 15, 13, 0, tzinfo=UTC)),
        ("@daily", datetime(2026, 11, 16, tzinfo=UTC)),
        ("0 9 * * mon-fri", datetime(2026, 11, 16, 9, 0, tzinfo=UTC)),
        ("0 0 1 jan *", datetime(2027, 1, 1, tzinfo=UTC)),
        ("0 0 13 * 5", datetime(2026, 11, 20, tzinfo=UTC)),  # the 13th, or a Friday
        ("30 4 29 2 *", datetime(2028, 2, 29, 4, 30, tzinfo=UTC)),
        ("15,45 8-10/2 * * 7", datetime(2026, 11, 22, 8, 15, tzinfo=UTC)),
    ],
)
def test_cron(text: str, then: datetime) -> None:
    assert parse_cron(text).find_next(NOON) == then


BAD = ["x", "5", "-5m", "0s", "5q", "1h 5", "", "cron * * *", "61 * * * *", "* 24 * * *", "0 0 31 feb *", "a * * * *", "*/0 * * * *", "5-1 * * * *", "* * * * 8"]  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(InvalidDefinitionError):
        parse_schedule(text)


@pytest.mark.parametrize("text", ["3650d1s", "9999999d", "1h 9999999 weeks", f"{'9' * 400}d"])
def test_what_is_too_long_is_refused(text: str) -> None:
    with pytest.raises(InvalidDefinitionError, match="is longer than ten years"):
        parse_schedule(text)


@given(
    st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)),
    st.sampled_from(["*/7 * * * *", "5 3 * * 2", "0 0 1 */3 *"]),
)
def test_the_next_minute_is_after_and_matches(moment: datetime, text: str) -> None:
    at, cron = moment.replace(tzinfo=UTC), parse_cron(text)
    following = cron.find_next(at)
    assert isinstance(parse_schedule(text), Cron)
    assert following > at
    assert cron.matches(following)


@given(st.text(max_size=12))
def test_any_text_is_a_duration_or_a_clear_error(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except InvalidDefinitionError:
        return
    assert seconds > 0
