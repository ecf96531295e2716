"""The text of a schedule -> when a stream table is due: durations, cron, or what its readers need."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from spark_trickle.errors import InvalidDefinitionError, shorten_text
from spark_trickle.settings import LONGEST_SCHEDULE_SECONDS

_UNITS = {
    "ms": 0.001,
    "s": 1,
    "sec": 1,
    "second": 1,
    "m": 60,
    "min": 60,
    "minute": 60,
    "h": 3600,
    "hour": 3600,
    "d": 86_400,
    "day": 86_400,
    "w": 604_800,
    "week": 604_800,
}
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)", re.I)
_DIGITS = re.compile("[0-9]{1,9}")
_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
_MONTHS = {m: n for n, m in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), start=1)}  # noqa: SIM905
_DAYS = {d: n for n, d in enumerate("sun mon tue wed thu fri sat".split())}  # noqa: SIM905
_HINT = "Write a duration such as '30s', '5m' or '1h30m', 'calculated', or CRON '*/5 * * * *'."
_UNITS_HINT = "Write each unit once, the largest first, as in '1h30m'."
_LONG_HINT = "Write a shorter one, or WITH (tier = frozen) to refresh it only by hand."


@dataclass(frozen=True)
class Every:
    """Again so many seconds after the last start."""

    seconds: float


@dataclass(frozen=True)
class Calculated:
    """As often as the most demanding stream table that reads it."""


@dataclass(frozen=True)
class Cron:
    """At the minutes that a cron expression names, in UTC."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool  # the day of the month does not matter
    any_weekday: bool

    def matches(self, at: datetime) -> bool:
        return (
            at.minute in self.minutes
            and at.hour in self.hours
            and at.month in self.months
            and self._matches_day(at)
        )

    def _matches_day(self, at: datetime) -> bool:
        """As cron has it: where both kinds of day are named, either will do."""
        by_month, by_week = at.day in self.days, at.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return by_month and by_week
        return by_month or by_week

    def find_next(self, moment: datetime) -> datetime:
        """The first minute after a moment."""
        at = moment.astimezone(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
        for _ in range(366 * 5):
            if at.month in self.months and self._matches_day(at):
                for _ in range(24 * 60):
                    if self.matches(at):
                        return at
                    day = at.day
                    at += timedelta(minutes=1)
                    if at.day != day:
                        break
            else:
                at = at.replace(hour=0, minute=0) + timedelta(days=1)
        raise InvalidDefinitionError(f'the cron expression "{self.text}" never matches a date', _HINT)


Schedule = Every | Cron | Calculated


def parse_schedule(text: str | None) -> Schedule:
    """No schedule is calculated."""
    if text is None or text.strip().lower() == "calculated":
        return Calculated()
    plain = text.strip()
    if plain.lower().startswith("cron "):
        return parse_cron(plain[5:])
    if plain.startswith("@") or len(plain.split()) == 5:
        return parse_cron(plain)
    return Every(parse_duration(plain))


def parse_duration(text: str) -> float:
    """Seconds of a text such as 1h30m or 5 minutes."""
    total, at = 0.0, 0
    units: list[float] = []
    for part in _PART.finditer(text):
        unit = part[2].lower()
        seconds = _UNITS.get(unit) or (_UNITS.get(unit[:-1]) if unit.endswith("s") else None)
        if part.start() != at or seconds is None:
            break
        total, at = total + float(part[1]) * seconds, part.end()
        units.append(seconds)
    if at != len(text.rstrip()) or total <= 0:
        raise InvalidDefinitionError(f'"{text}" is not a schedule', _HINT)
    if total > LONGEST_SCHEDULE_SECONDS:
        raise InvalidDefinitionError(f'the schedule "{text}" is longer than ten years', _LONG_HINT)
    if any(larger <= smaller for larger, smaller in pairwise(units)):
        raise InvalidDefinitionError(
            f'the units of the schedule "{text}" are in the wrong order', _UNITS_HINT
        )
    return total


def parse_cron(text: str) -> Cron:
    parts = _NAMED.get(text.strip().lower(), text).split()
    if len(parts) != 5:
        raise InvalidDefinitionError(
            f'the cron expression "{text}" has {len(parts)} fields',
            "Write five fields: minute, hour, day, month and weekday.",
        )
    minutes, hours, days, months, weekdays = (
        _parse_field(part, *rule) for part, rule in zip(parts, _FIELDS, strict=True)
    )
    from_sunday = frozenset(d % 7 for d in weekdays)
    cron = Cron(text, minutes, hours, days, months, from_sunday, parts[2] == "*", parts[4] == "*")
    cron.find_next(datetime(2026, 1, 1, tzinfo=UTC))  # refuses the 31st of February
    return cron


def _parse_field(text: str, name: str, low: int, high: int) -> frozenset[int]:
    values: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        start = low if span == "*" else _parse_number(first, name)
        end = high if span == "*" or (step and not dash) else _parse_number(last, name) if dash else start
        width = _parse_number(step, name) if step else 1
        if not low <= start <= end <= high:
            raise InvalidDefinitionError(
                f'"{shorten_text(part)}" is not a valid {name} in a cron expression',
                f"Write a number between {low} and {high}.",
            )
        if not 1 <= width <= high - low + 1:
            raise InvalidDefinitionError(
                f'the step in "{shorten_text(part)}" is out of range for the field "{name}"',
                f"Write a step between 1 and {high - low + 1}.",
            )
        values.update(range(start, end + 1, width))
    return frozenset(values)


def _parse_number(text: str, name: str) -> int:
    known = {"month": _MONTHS, "weekday": _DAYS}.get(name, {}).get(text.lower())
    if known is not None:
        return known
    if not _DIGITS.fullmatch(text):
        raise InvalidDefinitionError(
            f'"{shorten_text(text)}" is not a valid {name} in a cron expression', _HINT
        )
    return int(text)
