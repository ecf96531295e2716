"""What WITH and OPTIONS may say -> the page of the options."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import Any

from reference_text import code, table

from spark_trickle.model.stream_options import StreamOptions
from spark_trickle.sources.options import SourceOptions

_OF_MIRRORS = [
    ["`skip`", "Columns that are not captured, separated by commas."],
    ["`as_text`", "Columns that are captured as text, whatever their type is."],
]


def options_page() -> str:
    streams = [
        [code(f.name), _write_default(f.default), f.metadata["meaning"]] for f in fields(StreamOptions)
    ]
    sources = [
        [code(f.name), _write_default(f.default), _write_choices(f), f.metadata["meaning"]]
        for f in fields(SourceOptions)
    ]
    return f"""
# Options

Options belong to one stream table, source or mirror, and are stored in the catalog;
[settings](settings.md) belong to a connection.

## Of a stream table

`CREATE STREAM TABLE … WITH (name = value, …)`, or later `ALTER STREAM TABLE s SET (name = value, …)`.

{table(["option", "default", "meaning"], streams)}

## Of a source

`ATTACH SOURCE … OPTIONS (name 'value', …)`; all values are strings. One of `dsn` and `service` is needed.
[PostgreSQL as a source and as a target](../guide/postgresql-sources.md) explains them.

{table(["option", "default", "values", "meaning"], sources)}

## Of a mirror

`CREATE TABLE … FROM SOURCE … WITH (name 'value', …)`.

{table(["option", "meaning"], _OF_MIRRORS)}
"""


def _write_default(value: Any) -> str:
    text = str(value.value if isinstance(value, Enum) else value)
    return "" if value in (None, "") else code(text.lower() if isinstance(value, bool) else text)


def _write_choices(f: Any) -> str:
    return ", ".join(code(c) for c in f.metadata["choices"])
