"""Definitions of stream tables: export as SQL, creation from JSON, and the columns of hidden tables."""

from __future__ import annotations

import json
from typing import Any

from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.model.stream import Mode, Occasion, read_mode
from spark_trickle.model.stream_options import read_stream_options
from spark_trickle.model.table import Table
from spark_trickle.model.types import sql_name
from spark_trickle.observe.answer import Answer
from spark_trickle.observe.auxiliary import purposes_of
from spark_trickle.observe.export import definition_sql
from spark_trickle.refresh.compile import nodes_of
from spark_trickle.refresh.define import create_stream
from spark_trickle.refresh.refresh import node_tables
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.sql.names.references import find_references
from spark_trickle.sql.statements.kinds import CreateStream
from spark_trickle.txn.work import Work, begin_work

_FIELDS = ("name", "query", "schedule", "refresh_mode", "options", "columns")
_OPTIONAL: dict[str, tuple[type, str]] = {
    "schedule": (str, "a text"),
    "refresh_mode": (str, "a text"),
    "options": (dict, "an object"),
    "columns": (list, "a list of names"),
}


def export_definition(work: Work, table: Table) -> Answer:
    """A statement that creates the stream table again."""
    assert table.stream is not None
    return Answer({"definition": "string"}, [(definition_sql(work, table, table.stream),)])


def list_auxiliary_columns(work: Work, table: Table) -> Answer:
    """The columns that a stream table keeps beside those it shows, and what each is for."""
    assert table.stream is not None
    plans = {node.name: node.plan for node in nodes_of(table.stream.plan)}
    rows = []
    for node, inner in node_tables(work, table).items():
        if inner.id != table.id:
            purposes = purposes_of(plans[node])
            rows += [
                (str(node), inner.full_name, c.name, sql_name(c.type), purposes[c.name])
                for c in inner.columns
            ]
    names = ("node", "table_name", "column_name", "type", "purpose")
    return Answer(dict.fromkeys(names, "string"), rows)


def bulk_create(work: Work, text: str) -> Answer:
    """Stream tables from a JSON list of definitions, in any order and in one commit: all of them, or none."""
    definitions = _parse_definitions(text)
    statements = _order_statements(work, [_make_statement(d) for d in definitions])
    own = begin_work(work.place)
    try:
        for statement in statements:
            # Nobody refreshes it once more at the end, so it must see all that is there when it is committed.
            create_stream(own, statement, Occasion(at_commit=statement.mode == Mode.IMMEDIATE))
        snapshot = own.commit("bulk_create").id
    except BaseException:
        own.discard()
        raise
    return Answer({"name": "string", "snapshot": "long"}, [(d["name"], snapshot) for d in definitions])


def _order_statements(work: Work, statements: list[CreateStream]) -> list[CreateStream]:
    """Each after those of the list that it reads; a circle is left to be refused when it is created."""
    home = work.place.schema
    by_name = {_make_key(s.name, home): s for s in statements}
    reads = {
        key: [k for r in find_references(s.query) if (k := _make_key(r.parts, home)) in by_name and k != key]
        for key, s in by_name.items()
    }
    found: dict[tuple[str, ...], CreateStream] = {}

    def visit_statement(key: tuple[str, ...], way: tuple[tuple[str, ...], ...]) -> None:
        if key in found or key in way:
            return
        for source in reads[key]:
            visit_statement(source, (*way, key))
        found[key] = by_name[key]

    for key in by_name:
        visit_statement(key, ())
    repeated = [s for s in statements if by_name[_make_key(s.name, home)] is not s]
    return [*found.values(), *repeated]


def _make_key(name: tuple[str, ...], home: str) -> tuple[str, ...]:
    return tuple(part.lower() for part in (name if len(name) > 1 else (home, *name)))


def _parse_definitions(text: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidDefinitionError(f"this is not JSON: {error}", "Pass a list of objects.") from None
    if not isinstance(found, list) or not all(isinstance(d, dict) for d in found):
        raise InvalidDefinitionError(
            "bulk_create takes a list of objects", f"Their fields are {', '.join(_FIELDS)}."
        )
    for d in found:
        if unknown := [k for k in d if k not in _FIELDS]:
            raise InvalidDefinitionError(
                f'there is no field "{unknown[0]}"', f"The fields are {', '.join(_FIELDS)}."
            )
        for needed in ("name", "query"):
            if not isinstance(d.get(needed), str):
                raise InvalidDefinitionError(f'a definition has no "{needed}"', "Give it a name and a query.")
        for name, (kind, meaning) in _OPTIONAL.items():
            if not isinstance(d.get(name) or kind(), kind):
                raise InvalidDefinitionError(f'the field "{name}" is not {meaning}', f"Write {meaning}.")
        if not all(isinstance(c, str) for c in d.get("columns") or ()):
            raise InvalidDefinitionError(
                'the field "columns" is not a list of names', "Write names in quotes."
            )
    return found


def _make_statement(d: dict[str, Any]) -> CreateStream:
    options = read_stream_options({k: str(v).lower() for k, v in (d.get("options") or {}).items()})
    return CreateStream(
        Cursor(d["name"]).read_name(),
        d["query"],
        tuple(d.get("columns") or ()),
        d.get("schedule"),
        read_mode(d.get("refresh_mode") or Mode.AUTO),
        options,
    )
