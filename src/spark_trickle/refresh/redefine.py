"""A stream table and its query -> the same table with a new plan, or a new table where its columns change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spark_trickle.errors import (
    InUseError,
)
from spark_trickle.model import commit
from spark_trickle.model.stream import Stream
from spark_trickle.model.table import Column, Table
from spark_trickle.model.types import can_widen
from spark_trickle.refresh.circular_definition import check_circle
from spark_trickle.refresh.compile import analyze_plan, compile_query
from spark_trickle.refresh.define import define_nodes, new_table
from spark_trickle.refresh.drop import refuse_published, refuse_users
from spark_trickle.refresh.identity import keys_of, with_identity
from spark_trickle.refresh.modes import find_moments, refuse_mirrors
from spark_trickle.refresh.outdated import zone_of
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
            work.define(commit.DropTable(inner))
    keys = keys_of(work, [n.plan for n in compiled.nodes], compiled.sources)
    tables = define_nodes(work, table.name, compiled, table.id, keys)
    shape = new_table(work, table.schema, table.name, analyze_plan(work, compiled.nodes[-1].plan, tables))
    new = replace(
        stream,
        moments=find_moments(compiled.nodes, stream.mode),
        sources=compiled.sources,
        nodes=tuple(t.id for t in tables.values()),
        plan=compiled.text,
        time_zone=zone_of(work, compiled.text, compiled.sources),
        views=compiled.views,
        known=compiled.known,
    )
    reads_itself = any(source.table_id == table.id for source in compiled.sources)
    columns = _widen_columns(table, shape.columns, widen=not reads_itself)
    if columns:
        again = with_identity(replace(table, columns=columns, stream=new), keys[-1])
        if again.identity != table.identity:  # rows of before may repeat what tells the new ones apart
            again = replace(again, identity=())
        work.define(commit.AlterTable(table, again))
        return again
    refuse_users(work, table, "altered")
    if reads_itself:
        raise InUseError(table.full_name, "given other columns", (table.full_name,))
    refuse_published(work, table)
    work.define(commit.DropTable(table))
    again = replace(shape, id=work.new_id(), view_id=work.new_id() + 1, stream=new)
    again = with_identity(again, keys[-1])
    work.define(commit.CreateTable(again))
    return again


def _widen_columns(table: Table, new: Sequence[Column], widen: bool) -> tuple[Column, ...]:
    """The columns of a stream table with the types that they have now, if its rows can stay; else none.

    So it remains the same table for those that read it and for those that it is published to.
    """
    pairs = list(zip(table.columns, new, strict=False))
    fits = len(table.columns) == len(new) and all(
        old.name == n.name and (old.type == n.type or (widen and can_widen(old.type, n.type)))
        for old, n in pairs
    )
    return tuple(replace(old, type=n.type) for old, n in pairs) if fits else ()
