"""A stream table and its query -> the same table with a new plan, or a new table where its columns change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spark_trickle.errors import (
    InUseError,
)
from spark_trickle.model import commit
from spark_trickle.model.stream import Stream
from spark_trickle.model.table import Table, TableColumn
from spark_trickle.model.types import can_widen
from spark_trickle.refresh.circular_definition import check_circle
from spark_trickle.refresh.compile import compile_query
from spark_trickle.refresh.define import define_shape, plan_stream
from spark_trickle.refresh.drop import refuse_published, refuse_users
from spark_trickle.refresh.modes import refuse_mirrors
from spark_trickle.refresh.query_names import wording_of
from spark_trickle.txn.work import Work


def redefine_stream(work: Work, table: Table, stream: Stream, new_query: bool = False) -> Table:
    """`new_query`: someone wrote it now, so it means what names mean now, also if its text is the same."""
    same = table.stream is not None and stream.query == table.stream.query
    names = table.column_names if same else ()
    wording = None if new_query else wording_of(work.catalog, stream)
    compiled = compile_query(work, stream.query, stream.home, names, stream.options.exact_floats, wording)
    check_circle(work, table, stream.mode, compiled)
    refuse_mirrors(work, stream.mode, compiled.sources)
    for node in table.stream.nodes if table.stream else ():
        if (inner := work.catalog.table_by_id(node)) is not None:
            work.define(commit.DroppedTable(inner))
    new = plan_stream(work, stream, compiled)
    shape = define_shape(work, table.schema, table.name, compiled, table.id)
    reads_itself = any(source.table_id == table.id for source in compiled.sources)
    columns = _widen_columns(table, shape.table.columns, widen=not reads_itself)
    if columns:
        again = replace(shape, table=replace(table, columns=columns)).make_table(new)
        if again.identity != table.identity:  # rows of before may repeat what tells the new ones apart
            again = replace(again, identity=())
        work.define(commit.AlteredTable(table, again))
        return again
    refuse_users(work, table, "altered")
    if reads_itself:
        raise InUseError(table.full_name, "given other columns", (table.full_name,))
    refuse_published(work, table)
    work.define(commit.DroppedTable(table))
    fresh = replace(shape.table, id=work.new_id(), view_id=work.new_id() + 1)
    again = replace(shape, table=fresh).make_table(new)
    work.define(commit.CreatedTable(again))
    return again


def _widen_columns(table: Table, new: Sequence[TableColumn], widen: bool) -> tuple[TableColumn, ...]:
    """The columns of a stream table with the types that they have now, if its rows can stay; else none.

    So it remains the same table for those that read it and for those that it is published to.
    """
    pairs = list(zip(table.columns, new, strict=False))
    fits = len(table.columns) == len(new) and all(
        old.name == n.name and (old.type == n.type or (widen and can_widen(old.type, n.type)))
        for old, n in pairs
    )
    return tuple(replace(old, type=n.type) for old, n in pairs) if fits else ()
