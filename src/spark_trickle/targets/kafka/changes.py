"""The net change of a table -> what became of each key: its row before, and its row after.

A row that goes and one that comes under the same key are one change. They are found beside each other: the
driver sorts a few rows by their keys, Spark many, so that never more than one waits for its pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from spark_trickle.model.quoting import quote
from spark_trickle.model.table import WEIGHT
from spark_trickle.spark.write import write_staged
from spark_trickle.targets.interface import RowsToPublish
from spark_trickle.targets.kafka.images import ImageWriter, RowImage


class KeyChange(NamedTuple):
    """`before` None: the row is new. `after` None: it is gone."""

    key: str
    before: str | None
    after: str | None


Weighted = tuple[RowImage, int]


def read_changes(rows: RowsToPublish, writer: ImageWriter, key: Sequence[str]) -> Iterator[KeyChange]:
    """In the order of keys, where there are any; of one key, what goes is before what comes."""
    if rows.few is not None:
        found: Iterable[Weighted] = _weigh_images(rows.few, writer)
        if key:
            found = sorted(found, key=lambda weighted: (weighted[0].key, weighted[1]))
    else:
        found = (w for piece in _read_staged(rows, key) for w in _weigh_images(piece, writer))
    return pair_images(found) if key else map(_make_single, found)


def _weigh_images(rows: pa.Table, writer: ImageWriter) -> Iterator[Weighted]:
    return zip(writer.write_rows(rows), rows.column(WEIGHT).to_pylist(), strict=True)


def _read_staged(rows: RowsToPublish, key: Sequence[str]) -> Iterator[pa.Table]:
    """All rows of a key are in one file, or at the seam of two that follow each other."""
    work, table = rows.work, rows.table
    storage, frame = work.place.storage, rows.frame
    if key:
        names = [quote(name) for name in key]
        frame = frame.repartition(*names).sortWithinPartitions(*names, WEIGHT)
    folder = f"{storage.new_name()}-pushed"
    work.note_written(table, folder)
    write_staged(frame, storage.path(table, folder))
    for name in storage.list_parts(table, folder):
        yield from storage.read_batches(table, name)


def pair_images(found: Iterable[Weighted]) -> Iterator[KeyChange]:
    """Rows of one key that follow each other, first the one that goes, are one change."""
    gone: RowImage | None = None
    for image, weight in found:
        if gone is not None and weight > 0 and gone.key == image.key:
            yield KeyChange(gone.key, gone.row, image.row)
            gone = None
            continue
        if gone is not None:
            yield _make_single((gone, -1))
        gone = image if weight < 0 else None
        if gone is None:
            yield _make_single((image, weight))
    if gone is not None:
        yield _make_single((gone, -1))


def _make_single(weighted: Weighted) -> KeyChange:
    image, weight = weighted
    return KeyChange(image.key, None, image.row) if weight > 0 else KeyChange(image.key, image.row, None)
