"""OPTIONS of ATTACH SOURCE -> values, or an error that says what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, get_args

from spark_trickle.errors import InvalidDefinitionError, UnsupportedError, suggest_closest
from spark_trickle.sources.postgres.capture import SCHEMA, Mode
from spark_trickle.sources.postgres.connect import Address
from spark_trickle.sources.postgres.names import parse_patterns

KINDS = ("postgres",)


class CdcMode(StrEnum):
    """How changes may reach us."""

    AUTO = "auto"  # by triggers, and from the log as soon as that is possible
    TRIGGER = "trigger"
    WAL = "wal"


class CopyWay(StrEnum):
    DIRECT = "direct"
    JDBC = "jdbc"  # the executors of a cluster read a first copy side by side


class Resync(StrEnum):
    AUTO = "auto"  # a mirror that lost changes is copied again by itself
    MANUAL = "manual"


_BOOLEANS = {"true": True, "false": False}
_CHOICES: dict[str, Mapping[str, object]] = {
    "cdc_mode": {c.value: c for c in CdcMode},
    "capture": {c: c for c in get_args(Mode)},
    "resync": {c.value: c for c in Resync},
    "unlogged": _BOOLEANS,
    "guarded": _BOOLEANS,
    "notify": _BOOLEANS,
    "copy": {c.value: c for c in CopyWay},
}


@dataclass(frozen=True)
class SourceOptions:
    """How a source is reached and captured; it says where the secrets are, and holds none."""

    dsn: str = ""
    service: str = ""
    passfile: str = ""
    cdc_mode: CdcMode = CdcMode.AUTO
    tables: str = "*.*"  # those that may be mirrored
    schema: str = SCHEMA  # where the change buffers are
    capture: Mode = "statement"  # statement or row triggers
    unlogged: bool = False  # buffers that are faster, and lost when the server crashes
    guarded: bool = True  # a write of the application never fails because of us
    notify: bool = False  # triggers wake up a running scheduler
    copy: CopyWay = CopyWay.DIRECT
    resync: Resync = Resync.AUTO

    @property
    def address(self) -> Address:
        return Address(self.dsn, self.service, self.passfile)


def read_options(kind: str, given: Mapping[str, str]) -> SourceOptions:
    if kind not in KINDS:
        raise UnsupportedError(f'a source of type "{kind}"', f"The types are {', '.join(KINDS)}.")
    known = tuple(f.name for f in fields(SourceOptions))
    for name, value in given.items():
        if name not in known:
            raise InvalidDefinitionError(
                f'there is no option "{name}" of a source', suggest_closest(name, known, "options")
            )
        if name in _CHOICES and value.lower() not in _CHOICES[name]:
            raise InvalidDefinitionError(
                f'"{value}" is not a value of the option "{name}"', f"Choose {' or '.join(_CHOICES[name])}."
            )
    chosen: dict[str, Any] = {n: _CHOICES[n][v.lower()] if n in _CHOICES else v for n, v in given.items()}
    options = SourceOptions(**chosen)
    parse_patterns(options.tables)
    _ = options.address
    return options
