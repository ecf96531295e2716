"""The options of a PostgreSQL source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import get_args

from spark_trickle.sources.options import SWITCH, name_members, option, parse_options
from spark_trickle.sources.postgres.capture import SCHEMA, Mode
from spark_trickle.sources.postgres.connect import Address
from spark_trickle.sources.postgres.names import parse_patterns


class CdcMode(StrEnum):
    """How changes may reach us."""

    AUTO = "auto"
    TRIGGER = "trigger"
    WAL = "wal"


class CopyWay(StrEnum):
    """Who reads a first copy."""

    DIRECT = "direct"
    JDBC = "jdbc"


class ResyncWay(StrEnum):
    """What becomes of a mirror that lost changes."""

    AUTO = "auto"
    MANUAL = "manual"


@dataclass(frozen=True)
class PostgresOptions:
    """How a database is reached and captured; it says where the secrets are, and holds none."""

    dsn: str = option(
        "", "The address: `env:NAME` for an environment variable that holds it, or one without a password."
    )
    service: str = option("", "An entry of `pg_service.conf`, in place of `dsn` or beside it.")
    passfile: str = option("", "A file with the password, in the form of libpq.")
    cdc_mode: CdcMode = option(  # noqa: RUF009 a field
        CdcMode.AUTO,
        "How changes are captured. `auto` starts with triggers, and switches to the log when it can.",
        name_members(CdcMode),
    )
    tables: str = option("*.*", "The tables that may be mirrored: patterns, separated by commas.")
    schema: str = option(SCHEMA, "The schema in the source that holds the change buffers.")
    capture: Mode = option(  # noqa: RUF009 a field
        "statement",
        "Whether triggers run once for each statement or for each row.",
        {m: m for m in get_args(Mode)},
    )
    unlogged: bool = option(
        False, "Make the buffers unlogged: faster, but a crash of the server empties them.", SWITCH
    )
    guarded: bool = option(
        True,
        "Let a write of the application succeed even if its change cannot be captured; the table is then "
        "copied again.",
        SWITCH,
    )
    notify: bool = option(False, "Let the triggers wake up a running scheduler.", SWITCH)
    copy: CopyWay = option(  # noqa: RUF009 a field
        CopyWay.DIRECT,
        "Who reads a first copy: this process, or the executors of a cluster in parallel.",
        name_members(CopyWay),
    )
    resync: ResyncWay = option(  # noqa: RUF009 a field
        ResyncWay.AUTO,
        "Whether a mirror that lost changes is copied again, or waits for `RESYNC TABLE`.",
        name_members(ResyncWay),
    )

    @property
    def address(self) -> Address:
        return Address(self.dsn, self.service, self.passfile)


def read_options(given: Mapping[str, str]) -> PostgresOptions:
    options = parse_options(PostgresOptions, given)
    parse_patterns(options.tables)
    _ = options.address
    return options
