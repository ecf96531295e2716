"""What WITH and OPTIONS may say -> the page of the options."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import Any

from reference_text import code, table

from spark_trickle.model.stream_options import StreamOptions
from spark_trickle.sources.followed.opening import KINDS
from spark_trickle.sources.postgres.options import PostgresOptions
from spark_trickle.targets.kinds import TARGETS

_OF_MIRRORS = [
    ["`skip`", "Columns that are not captured, separated by commas."],
    ["`as_text`", "Columns that are captured as text, whatever their type is."],
]


def options_page() -> str:
    streams = [
        [code(f.name), _write_default(f.default), f.metadata["meaning"]] for f in fields(StreamOptions)
    ]
    of_kinds = {"postgres": PostgresOptions, **{name: kind.options for name, kind in KINDS.items()}}
    sources = "\n\n".join(_write_kind(name, options) for name, options in of_kinds.items())
    of_tables = "\n\n".join(
        _write_kind(name, kind.table_options) for name, kind in KINDS.items() if kind.table_options
    )
    of_targets = "\n\n".join(
        _write_kind(name, kind.options) for name, kind in TARGETS.items() if fields(kind.options)
    )
    return f"""
# Options

Options belong to one stream table, source or mirror, and are stored in the catalog;
[settings](settings.md) belong to a connection.

## Of a stream table

`CREATE STREAM TABLE … WITH (name = value, …)`, or later `ALTER STREAM TABLE s SET (name = value, …)`.

{table(["option", "default", "meaning"], streams)}

## Of a source

`ATTACH SOURCE … TYPE … OPTIONS (name 'value', …)`; all values are strings. For `postgres`, one of `dsn` and
`service` is needed. [PostgreSQL as a source and as a target](../guide/postgresql-sources.md),
[Delta Lake](../guide/delta-lake.md), [Iceberg](../guide/iceberg.md),
[files that arrive](../guide/files.md) and [Kafka](../guide/kafka.md) explain them.

{sources}

## Of a mirror

`CREATE TABLE … FROM SOURCE … OPTIONS (name 'value', …)`.

{table(["option", "meaning"], _OF_MIRRORS)}

{of_tables}

## Of a published table

`PUBLISH STREAM TABLE … TO SOURCE … OPTIONS (name 'value', …)`; the other kinds of sources have none.

{of_targets}
"""


def _write_kind(name: str, options: type[Any]) -> str:
    rows = [
        [code(f.name), _write_default(f.default), _write_choices(f), f.metadata["meaning"]]
        for f in fields(options)
    ]
    return f"### {code(name)}\n\n{table(['option', 'default', 'values', 'meaning'], rows)}"


def _write_default(value: Any) -> str:
    text = str(value.value if isinstance(value, Enum) else value)
    return "" if value in (None, "") else code(text.lower() if isinstance(value, bool) else text)


def _write_choices(f: Any) -> str:
    return ", ".join(code(c) for c in f.metadata["choices"])
