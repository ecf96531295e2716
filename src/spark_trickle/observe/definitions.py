"""Definitions out and in: as SQL text, as JSON, and what the hidden tables of a stream table hold."""

from __future__ import annotations

import json
from typing import Any

from spark_trickle.dml.work import Work, begin
from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.model.stream import Mode, Stream
from spark_trickle.model.table import Table
from spark_trickle.model.types import sql_name
from spark_trickle.observe.answer import Answer
from spark_trickle.refresh.define import create_stream
from spark_trickle.refresh.run import Occasion, node_tables
from spark_trickle.sql.cursor import Cursor
from spark_trickle.sql.statements import CreateStream
from spark_trickle.sql.words import quote

_FIELDS = ("name", "query", "schedule", "refresh_mode", "options", "columns")


def export_definition(work: Work, table: Table) -> Answer:
    """A statement that creates the stream table again."""
    assert table.stream is not None
    return Answer({"definition": "string"}, [(definition_sql(table, table.stream),)])


def definition_sql(table: Table, stream: Stream) -> str:
    columns = ", ".join(quote(c) for c in table.column_names)
    name = f"{quote(table.schema)}.{quote(table.name)}"
    parts = [f"CREATE STREAM TABLE {name} ({columns})"]
    if stream.schedule is not None:
        cron = stream.schedule.lower().startswith("cron ")
        text = stream.schedule[5:] if cron else stream.schedule
        parts.append(f"{'SCHEDULE CRON' if cron else 'SCHEDULE'} '{text}'")
    parts.append(f"REFRESH MODE {stream.mode}")
    options = {k: v for k, v in sorted(stream.options.items()) if k != "moments"}
    if options:
        parts.append(f"WITH ({', '.join(f'{k} = {v}' for k, v in options.items())})")
    return "\n".join([*parts, f"AS {stream.query}"])


def list_auxiliary_columns(work: Work, table: Table) -> Answer:
    """The columns that a stream table keeps beside those it shows."""
    rows = []
    for node, inner in node_tables(work, table).items():
        if inner.id != table.id:
            rows += [(node, inner.full_name, c.name, sql_name(c.type)) for c in inner.columns]
    return Answer({"node": "string", "table_name": "string", "column_name": "string", "type": "string"}, rows)


def bulk_create(work: Work, text: str) -> Answer:
    """Stream tables from a JSON list of definitions, in one commit: all of them, or none."""
    definitions = _parsed(text)
    own = begin(work.place)
    try:
        for d in definitions:
            # Nobody refreshes it once more at the end, so it must see all that is there when it is committed.
            statement = _statement(d)
            create_stream(own, statement, Occasion(at_commit=statement.mode == Mode.IMMEDIATE))
        snapshot = own.commit("bulk_create").id
    except BaseException:
        own.discard()
        raise
    return Answer({"name": "string", "snapshot": "long"}, [(d["name"], snapshot) for d in definitions])


def _parsed(text: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidDefinitionError(f"this is no JSON: {error}", "Pass a list of objects.") from None
    if not isinstance(found, list) or not all(isinstance(d, dict) for d in found):
        raise InvalidDefinitionError("bulk_create takes a list of objects", f"Each has {', '.join(_FIELDS)}.")
    for d in found:
        if unknown := [k for k in d if k not in _FIELDS]:
            raise InvalidDefinitionError(
                f'there is no field "{unknown[0]}"', f"There are {', '.join(_FIELDS)}."
            )
        for needed in ("name", "query"):
            if not isinstance(d.get(needed), str):
                raise InvalidDefinitionError(f'a definition has no "{needed}"', "Give it a name and a query.")
    return found


def _statement(d: dict[str, Any]) -> CreateStream:
    options = tuple((k, str(v).lower()) for k, v in (d.get("options") or {}).items())
    return CreateStream(
        Cursor(d["name"]).name(),
        d["query"],
        tuple(d.get("columns") or ()),
        d.get("schedule"),
        str(d.get("refresh_mode", "AUTO")).upper(),
        options,
    )
