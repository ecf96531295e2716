"""OPTIONS of ATTACH SOURCE -> values, or an error that says what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from spark_trickle.errors import InvalidDefinitionError, UnsupportedError, suggest_closest
from spark_trickle.sources.postgres.capture import SCHEMA
from spark_trickle.sources.postgres.connect import Address
from spark_trickle.sources.postgres.names import parse_patterns

KINDS = ("postgres",)
_SWITCH = ("true", "false")


def _option(default: str, meaning: str, choices: tuple[str, ...] = ()) -> str:
    found: str = field(default=default, metadata={"meaning": meaning, "choices": choices})
    return found


@dataclass(frozen=True)
class SourceOptions:
    """How a source is reached and captured; it says where the secrets are, and holds none."""

    dsn: str = _option(
        "", "The address: `env:NAME` for an environment variable that holds it, or one without a password."
    )
    service: str = _option("", "An entry of `pg_service.conf`, in place of `dsn` or beside it.")
    passfile: str = _option("", "A file with the password, in the form of libpq.")
    cdc_mode: str = _option(
        "auto",
        "How changes are captured. `auto` begins with triggers, and changes to the log when it can.",
        ("auto", "trigger", "wal"),
    )
    tables: str = _option("*.*", "The tables that may be mirrored: patterns, separated by commas.")
    schema: str = _option(SCHEMA, "The schema of the source in which the change buffers are.")
    capture: str = _option(
        "statement", "Triggers that run once for each statement or row.", ("statement", "row")
    )
    unlogged: str = _option(
        "false", "Buffers that are faster, and empty after a crash of the server.", _SWITCH
    )
    guarded: str = _option(
        "true",
        "A write of the application goes on when a change cannot be captured; the table is copied again.",
        _SWITCH,
    )
    notify: str = _option("false", "Triggers wake up a running scheduler.", _SWITCH)
    copy: str = _option(
        "direct",
        "Who reads a first copy: this process, or the executors of a cluster in parallel.",
        ("direct", "jdbc"),
    )
    resync: str = _option(
        "auto",
        "Whether a mirror that lost changes is copied again, or waits for `RESYNC TABLE`.",
        ("auto", "manual"),
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
    chosen = {n: v.lower() if known[n] else v for n, v in given.items()}
    options = SourceOptions(**chosen)
    parse_patterns(options.tables)
    _ = options.address
    return options
