"""A stream table -> the names of its sources by which its query knows them.

Tables and columns may be renamed under a stream table, and others may take their names. Its plan knows them
by their ids; its query, when it has to be read again, must find what it meant.
"""

from __future__ import annotations

from dataclasses import replace

from spark_trickle.dml.work import Work
from spark_trickle.model.stream import Source, Stream
from spark_trickle.model.table import Table


def by_known_names(work: Work, stream: Stream) -> Work:
    """The same work, in which every source is called what it was when the query was bound."""
    catalog = work.catalog
    for source in stream.sources:
        table = catalog.table_by_id(source.table_id)
        if table is not None and source.name is not None:
            catalog = catalog.with_relation(_as_known(table, source, source.name))
    return replace(work, catalog=catalog)


def _as_known(table: Table, source: Source, name: tuple[str, str]) -> Table:
    known = {column_id: n for n, column_id, _ in source.columns}
    taken = {n.lower() for n in known.values()}
    columns = (replace(c, name=known.get(c.id, c.name)) for c in table.columns)
    # A column that came later under one of these names is not the one that is meant.
    kept = tuple(c for c in columns if c.id in known or c.name.lower() not in taken)
    return replace(table, schema=name[0], name=name[1], columns=kept)
