"""OPTIONS of ATTACH SOURCE -> values, or an error that says what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, get_args

from spark_trickle.errors import InvalidDefinitionError, UnsupportedError, suggest_closest
from spark_trickle.sources.postgres.capture import SCHEMA, Mode
from spark_trickle.sources.postgres.connect import Address
from spark_trickle.sources.postgres.names import parse_patterns

KINDS = ("postgres",)


class CdcMode(StrEnum):
    """How changes may reach us."""

    AUTO = "auto"
    TRIGGER = "trigger"
    WAL = "wal"


class CopyWay(StrEnum):
    """Who reads a first copy."""

    DIRECT = "direct"
    JDBC = "jdbc"


class Resync(StrEnum):
    """What becomes of a mirror that lost changes."""

    AUTO = "auto"
    MANUAL = "manual"


_SWITCH = {"true": True, "false": False}


def _option(default: Any, meaning: str, choices: Mapping[str, object] | None = None) -> Any:
    """`choices` are what a user may write, with the value that each means."""
    return field(default=default, metadata={"meaning": meaning, "choices": choices or {}})


def _name_members(kind: type[StrEnum]) -> dict[str, object]:
    return {member.value: member for member in kind}


@dataclass(frozen=True)
class SourceOptions:
    """How a source is reached and captured; it says where the secrets are, and holds none."""

    dsn: str = _option(
        "", "The address: `env:NAME` for an environment variable that holds it, or one without a password."
    )
    service: str = _option("", "An entry of `pg_service.conf`, in place of `dsn` or beside it.")
    passfile: str = _option("", "A file with the password, in the form of libpq.")
    cdc_mode: CdcMode = _option(  # noqa: RUF009 a field
        CdcMode.AUTO,
        "How changes are captured. `auto` starts with triggers, and switches to the log when it can.",
        _name_members(CdcMode),
    )
    tables: str = _option("*.*", "The tables that may be mirrored: patterns, separated by commas.")
    schema: str = _option(SCHEMA, "The schema in the source that holds the change buffers.")
    capture: Mode = _option(  # noqa: RUF009 a field
        "statement",
        "Whether triggers run once for each statement or for each row.",
        {m: m for m in get_args(Mode)},
    )
    unlogged: bool = _option(
        False, "Make the buffers unlogged: faster, but a crash of the server empties them.", _SWITCH
    )
    guarded: bool = _option(
        True,
        "Let a write of the application succeed even if its change cannot be captured; the table is then "
        "copied again.",
        _SWITCH,
    )
    notify: bool = _option(False, "Let the triggers wake up a running scheduler.", _SWITCH)
    copy: CopyWay = _option(  # noqa: RUF009 a field
        CopyWay.DIRECT,
        "Who reads a first copy: this process, or the executors of a cluster in parallel.",
        _name_members(CopyWay),
    )
    resync: Resync = _option(  # noqa: RUF009 a field
        Resync.AUTO,
        "Whether a mirror that lost changes is copied again, or waits for `RESYNC TABLE`.",
        _name_members(Resync),
    )

    @property
    def address(self) -> Address:
        return Address(self.dsn, self.service, self.passfile)


def read_options(kind: str, given: Mapping[str, str]) -> SourceOptions:
    if kind not in KINDS:
        raise UnsupportedError(f'a source of type "{kind}"', f"The types are {', '.join(KINDS)}.")
    known = {f.name: f.metadata["choices"] for f in fields(SourceOptions)}
    for name, value in given.items():
        if name not in known:
            raise InvalidDefinitionError(
                f'there is no option "{name}" of a source', suggest_closest(name, tuple(known), "options")
            )
        if known[name] and value.lower() not in known[name]:
            raise InvalidDefinitionError(
                f'"{value}" is not a value of the option "{name}"', f"Choose {' or '.join(known[name])}."
            )
    chosen: dict[str, Any] = {n: known[n][v.lower()] if known[n] else v for n, v in given.items()}
    options = SourceOptions(**chosen)
    parse_patterns(options.tables)
    _ = options.address
    return options
