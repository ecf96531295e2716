"""The next batch of a log -> rows of our table, and rejects, in one commit."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.model.arrow import arrow_schema, to_storage
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.sources.followed.parts import LOADED_AT, REJECTS, find_part
from spark_trickle.sources.interface import Records, weigh_rows
from spark_trickle.sources.landing import Landing, land_change, land_difference, read_mirror_rows
from spark_trickle.txn.work import Work, now

_PLACE = "$place"


def land_records(work: Work, table: Table, records: Records) -> tuple[Landing, int]:
    """What came and went, and how many records could not be read."""
    if records.by_key:
        landing = _land_images(work, table, records.pieces)
    else:
        landing = land_change(work, table, records.pieces)
    if rejects := _list_rejects(records):
        land_change(work, find_part(work.catalog, table, REJECTS), rejects)
    return landing, sum(piece.num_rows for piece in rejects)


def land_all(work: Work, table: Table, records: Records) -> Landing:
    """The table is to hold what the whole log tells, and what is there already stays."""
    images = take_last(table, records.pieces)
    there = images.filter(pc.greater(images.column(WEIGHT), 0))
    rejects = find_part(work.catalog, table, REJECTS)
    landing = land_difference(work, table, [there])
    if (new := _list_rejects(records)) or work.files(rejects):
        land_difference(work, rejects, new)
    return landing


def _land_images(work: Work, table: Table, pieces: Iterable[pa.Table]) -> Landing:
    """What is new of each key replaces what the table holds of it."""
    images = take_last(table, pieces)
    changes = [images.filter(pc.greater(images.column(WEIGHT), 0))]
    if images.num_rows and work.files(table):
        keys = images.select([c.name for c in table.key_columns])
        changes.append(weigh_rows(read_mirror_rows(work, table, keys), -1))
    return land_change(work, table, (c for c in changes if c.num_rows))


def take_last(table: Table, pieces: Iterable[pa.Table]) -> pa.Table:
    """Of rows with the same key the last one."""
    rows = pa.concat_tables([arrow_schema(table).empty_table(), *(to_storage(table, p) for p in pieces)])
    keys = [c.name for c in table.key_columns]
    numbered = rows.select(keys).append_column(_PLACE, pa.array(range(rows.num_rows), pa.int64()))
    last = numbered.group_by(keys).aggregate([(_PLACE, "max")]).column(f"{_PLACE}_max")
    return rows.take(pa.array(sorted(last.to_pylist()), pa.int64()))


def _list_rejects(records: Records) -> list[pa.Table]:
    """Those of pieces that were read."""
    found = records.rejects()
    if not found.num_rows:
        return []
    moment = pa.repeat(pa.scalar(now(), pa.timestamp("us", tz="UTC")), found.num_rows)
    return [weigh_rows(found.append_column(LOADED_AT, moment), 1)]
