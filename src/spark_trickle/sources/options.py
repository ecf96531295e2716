"""OPTIONS of ATTACH SOURCE -> values, or an error that says what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from spark_trickle.errors import InvalidDefinitionError, UnsupportedError, suggest_closest
from spark_trickle.sources.postgres.capture import SCHEMA
from spark_trickle.sources.postgres.connect import Address
from spark_trickle.sources.postgres.names import parse_patterns

KINDS = ("postgres",)
_CHOICES = {
    "cdc_mode": ("auto", "trigger", "wal"),
    "capture": ("statement", "row"),
    "resync": ("auto", "manual"),
    "unlogged": ("true", "false"),
    "guarded": ("true", "false"),
    "notify": ("true", "false"),
    "copy": ("direct", "jdbc"),
}


@dataclass(frozen=True)
class SourceOptions:
    """How a source is reached and captured; it says where the secrets are, and holds none."""

    dsn: str = ""
    service: str = ""
    passfile: str = ""
    cdc_mode: str = "auto"  # auto, trigger, wal
    tables: str = "*.*"  # those that may be mirrored
    schema: str = SCHEMA  # where the change buffers are
    capture: str = "statement"  # statement or row triggers
    unlogged: str = "false"  # buffers that are faster, and lost when the server crashes
    guarded: str = "true"  # a write of the application never fails because of us
    notify: str = "false"  # triggers wake up a running scheduler
    copy: str = "direct"  # whether the executors of a cluster read a first copy side by side, by jdbc
    resync: str = "auto"  # whether a mirror that lost changes is copied again by itself

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
    chosen = {n: v.lower() if n in _CHOICES else v for n, v in given.items()}
    options = SourceOptions(**chosen)
    parse_patterns(options.tables)
    _ = options.address
    return options
