"""A net change -> one MERGE by the library, in a single process, which streams the files that it touches.

It also writes down row by row what changed. Readers of a change data feed go by that: files that we write
ourselves tell them only that whole files were replaced, so that all rows of these went and came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.model.quoting import quote
from spark_trickle.model.table import WEIGHT
from spark_trickle.spark.run import run_sql
from spark_trickle.targets.interface import RowsToPublish
from spark_trickle.targets.rows import read_frame

_GOES = "_trickle_goes"
_NUMBER = "_trickle_number"


def merge_change(there: Any, schema: pa.Schema, key: Sequence[str], rows: RowsToPublish, noted: Any) -> None:
    """Each key gets its new row, or goes if it has none, so a MERGE that is made twice changes nothing.

    `there` is the table as the library opens it, `noted` what goes into the commit.
    """
    source = pa.RecordBatchReader.from_batches(
        schema.append(pa.field(_GOES, pa.bool_())), _read_last_images(schema, key, rows)
    )
    same_key = " AND ".join(f"t.{_quote(c)} IS NOT DISTINCT FROM s.{_quote(c)}" for c in key)
    values = {_quote(c): f"s.{_quote(c)}" for c in rows.table.column_names}
    merging = there.merge(source, same_key, source_alias="s", target_alias="t", commit_properties=noted)
    merging = merging.when_matched_delete(f"s.{_GOES}")
    merging = merging.when_matched_update(values, f"NOT s.{_GOES}")
    merging.when_not_matched_insert(values, f"NOT s.{_GOES}").execute()


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _read_last_images(schema: pa.Schema, key: Sequence[str], rows: RowsToPublish) -> Iterator[pa.RecordBatch]:
    for weight, piece in _read_pieces(key, rows):
        goes = pa.repeat(pa.scalar(weight < 0), piece.num_rows)
        yield from piece.select(schema.names).cast(schema).append_column(_GOES, goes).to_batches()


def _read_pieces(key: Sequence[str], rows: RowsToPublish) -> Iterator[tuple[int, pa.Table]]:
    """Of each key the row that comes, or the one that goes if none comes, and which of the two it is."""
    if rows.few is not None:
        chosen = choose_last_images(rows.few, key)
        for weight in (1, -1):
            yield weight, chosen.filter(pc.equal(chosen.column(WEIGHT), weight)).drop_columns([WEIGHT])
        return
    change = rows.frame
    inserted, deleted = (change.where(f"{WEIGHT} {sign} 0").drop(WEIGHT) for sign in (">", "<"))
    same_key = " AND ".join(f"deleted.{quote(c)} <=> inserted.{quote(c)}" for c in key)
    text = (
        f"SELECT deleted.* FROM {{deleted}} AS deleted LEFT ANTI JOIN {{inserted}} AS inserted ON {same_key}"
    )
    left_out = run_sql(rows.work.place.spark, text, deleted=deleted, inserted=inserted)
    for weight, frame in ((1, inserted), (-1, left_out)):
        for piece in read_frame(rows.work, rows.table, frame, rows.most):
            yield weight, piece


def choose_last_images(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """One row of each key: the one that comes, if there is one."""
    ordered = rows.take(pc.sort_indices(rows, [(WEIGHT, "descending")]))
    numbered = ordered.select(list(key)).append_column(_NUMBER, pa.array(range(ordered.num_rows), pa.int64()))
    first = numbered.group_by(list(key)).aggregate([(_NUMBER, "min")])
    return ordered.take(first.column(f"{_NUMBER}_min"))
