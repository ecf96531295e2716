"""What WITH (…) says of a stream table, as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, TypeAlias

from spark_trickle.errors import InvalidDefinitionError, shorten_text
from spark_trickle.model.numbers import read_whole_number
from spark_trickle.settings import LARGEST_NUMBER


class Tier(StrEnum):
    """How often the scheduler refreshes, compared with the schedule."""

    HOT = "hot"
    WARM = "warm"  # half as often
    COLD = "cold"  # a tenth as often
    FROZEN = "frozen"  # never


OptionValue: TypeAlias = bool | int | Tier
OptionValues: TypeAlias = tuple[tuple[str, OptionValue], ...]


def _option(default: Any, meaning: str) -> Any:
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True)
class StreamOptions:
    initialize: bool = _option(True, "Fill it when it is created; `false` leaves that to its first refresh.")
    append_only: bool = _option(
        False,
        "Declare that its sources only grow. The first deleted row is applied, and switches the option off.",
    )
    exact_floats: bool = _option(
        False, "Compute sums of doubles again from all rows of a touched group, instead of adding to them."
    )
    tier: Tier = _option(  # noqa: RUF009 a field
        Tier.HOT,
        "How often it is refreshed: `hot` on schedule, `warm` half as often, `cold` a tenth as often, "
        "`frozen` only by hand.",
    )
    fuse_ceiling: int | None = _option(
        None,
        "It stops until `reset_fuse()` when more source rows than this changed; 0 means no fuse. By default, "
        "the setting `fuse_default_ceiling` applies.",
    )

    def with_values(self, values: OptionValues) -> StreamOptions:
        given: dict[str, Any] = dict(values)
        return replace(self, **given)

    def to_texts(self) -> dict[str, str]:
        """What differs from the defaults, as a user would write it."""
        plain = StreamOptions()
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: str(v).lower() for name, v in found.items() if v != getattr(plain, name)}


def read_stream_options(texts: Mapping[str, str]) -> StreamOptions:
    return StreamOptions().with_values(parse_option_values(texts.items()))


def parse_option_values(written: Iterable[tuple[str, str]]) -> OptionValues:
    """What a user wrote, or an error that says what is wrong with it."""
    return tuple((name, _parse_value(name, text)) for name, text in written)


def _parse_value(name: str, text: str) -> OptionValue:
    known = [f.name for f in fields(StreamOptions)]
    if name not in known:
        raise InvalidDefinitionError(f'there is no option "{name}"', f"The options are {', '.join(known)}.")
    if name == "tier":
        return _parse_tier(text)
    if name == "fuse_ceiling":
        return _parse_number(name, text)
    return _parse_flag(name, text)


def _parse_tier(text: str) -> Tier:
    try:
        return Tier(text.lower())
    except ValueError:
        raise InvalidDefinitionError(
            f'there is no tier "{text}"', f"The tiers are {', '.join(Tier)}."
        ) from None


def _parse_number(name: str, text: str) -> int:
    number = read_whole_number(text)
    if number is None:
        raise InvalidDefinitionError(
            f'option "{name}" is not a number: {shorten_text(text)}', "Write a whole number."
        )
    return min(number, LARGEST_NUMBER)


def _parse_flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidDefinitionError(f'option "{name}" is neither true nor false', "Write true or false.")
    return text.lower() == "true"
