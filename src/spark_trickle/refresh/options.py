"""What WITH (…) may say of a stream table: name, kind and meaning of each option, once."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.errors import InvalidDefinitionError

_TIERS = ("hot", "warm", "cold", "frozen")


@dataclass(frozen=True)
class Option:
    kind: str  # flag, number or tier
    meaning: str


OPTIONS = {
    "initialize": Option("flag", "Fill it at once (the default), or at its first refresh."),
    "append_only": Option(
        "flag", "Its sources only grow; switched off with a warning at the first UPDATE or DELETE."
    ),
    "exact_floats": Option("flag", "Compute sums of doubles again instead of adding to them."),
    "tier": Option("tier", "hot, warm (half as often), cold (a tenth as often) or frozen (never)."),
    "fuse_ceiling": Option("number", "Changed rows beyond which it stops until reset_fuse; 0 for no fuse."),
}


def check_options(options: dict[str, str]) -> None:
    for key, value in options.items():
        if key not in OPTIONS:
            raise InvalidDefinitionError(f'there is no option "{key}"', f"There are {', '.join(OPTIONS)}.")
        _check(key, value)


def _check(key: str, value: str) -> None:
    match OPTIONS[key].kind:
        case "flag" if value.lower() not in ("true", "false"):
            raise InvalidDefinitionError(f'option "{key}" is neither true nor false', "Write true or false.")
        case "number" if not value.isdigit():
            raise InvalidDefinitionError(f'option "{key}" is no number: {value}', "Write a whole number.")
        case "tier" if value.lower() not in _TIERS:
            raise InvalidDefinitionError(f'there is no tier "{value}"', f"There are {', '.join(_TIERS)}.")


def is_on(options: dict[str, str], key: str, default: bool = False) -> bool:
    return options.get(key, str(default)).lower() == "true"
