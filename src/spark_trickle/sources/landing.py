"""Weighted rows from a source, piece by piece -> the change of its mirror, as small as it can be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from spark_trickle.model.arrow import single_weights, sum_weights, to_storage
from spark_trickle.model.commit import TableChange
from spark_trickle.model.files import DataFile, Role
from spark_trickle.model.room import Room, room_of_statement
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.spark.frames import Frame, local_frame
from spark_trickle.spark.read import rows_with_weights
from spark_trickle.spark.run import collect, run_sql
from spark_trickle.sql.lexer.words import quote
from spark_trickle.txn.net import net_change
from spark_trickle.txn.store import store_frame, store_rows
from spark_trickle.txn.work import Work


@dataclass(frozen=True)
class Landing:
    """How many rows were inserted into a mirror and deleted from it."""

    inserted: int = 0
    deleted: int = 0

    def __add__(self, other: Landing) -> Landing:
        return Landing(self.inserted + other.inserted, self.deleted + other.deleted)


def land_change(work: Work, table: Table, pieces: Iterable[pa.Table]) -> Landing:
    """A change that may come and go within itself; only what is left of it is stored."""
    rest = iter(pieces)
    held = _take_pieces(rest, room_of_statement(work.place.settings))
    following = next(rest, None)
    if following is None:
        if not held:
            return Landing()
        return _store_files(work, table, store_rows(work, table, _net_pieces(table, held)))
    staged = _stage_pieces(work, table, chain(held, (following,), rest))
    return _store_files(work, table, store_frame(work, table, net_change(work, table, staged)))


def land_new(work: Work, table: Table, pieces: Iterable[pa.Table]) -> Landing:
    """Rows that are all new, each piece a file."""
    files: list[DataFile] = []
    for piece in pieces:
        files += store_rows(work, table, to_storage(table, piece))
    return _store_files(work, table, tuple(files))


def land_frame(work: Work, table: Table, rows: Frame) -> Landing:
    """Rows that are all new, with their weights, written by the executors that have them."""
    return _store_files(work, table, store_frame(work, table, rows))


def land_difference(work: Work, table: Table, pieces: Iterable[pa.Table]) -> Landing:
    """All rows that the table is to hold; what it holds already stays."""
    new = _stage_pieces(work, table, pieces)
    old = work.rows(table).selectExpr("*", f"-1 AS {WEIGHT}")
    net = net_change(work, table, new.unionByName(old))
    return _store_files(work, table, store_frame(work, table, net))


def _take_pieces(pieces: Iterator[pa.Table], room: Room) -> list[pa.Table]:
    """As many pieces as the driver may hold."""
    held: list[pa.Table] = []
    rows = memory = 0
    while rows <= room.rows and memory <= room.bytes and (piece := next(pieces, None)) is not None:
        held.append(piece)
        rows += piece.num_rows
        memory += piece.nbytes
    return held


def _net_pieces(table: Table, pieces: list[pa.Table]) -> pa.Table:
    rows = pa.concat_tables([to_storage(table, piece) for piece in pieces])
    return to_storage(table, single_weights(sum_weights(table, rows)))


def _stage_pieces(work: Work, table: Table, pieces: Iterable[pa.Table]) -> Frame:
    """Pieces written down as they come, so that there is never more than one of them in memory."""
    place = work.place
    folder = f"{place.storage.new_name()}-landing"
    work.note_written(table, folder)
    place.storage.make_folder(table, folder)
    files = []
    for n, piece in enumerate(pieces):
        name = f"{folder}/{n:06}.parquet"
        stored = to_storage(table, piece)
        place.storage.write(table, name, stored, place.settings.compression)
        files.append(place.storage.describe(table, name, Role.CHANGE, work.base.id, stored.nbytes))
    return rows_with_weights(place.spark, place.storage, table, files)


def _store_files(work: Work, table: Table, files: tuple[DataFile, ...]) -> Landing:
    if files:
        work.change(TableChange(table, added=files))
    return Landing(sum(f.rows - f.deletes for f in files), sum(f.deletes for f in files))


def read_mirror_rows(work: Work, table: Table, keys: pa.Table) -> pa.Table:
    """The rows of a mirror with some keys: old images that the log does not repeat."""
    spark = work.place.spark
    same = " AND ".join(f"m.{quote(n)} <=> k.{quote(n)}" for n in keys.column_names)
    text = f"SELECT /*+ BROADCAST(k) */ m.* FROM {{rows}} AS m JOIN {{wanted}} AS k ON {same}"
    return collect(run_sql(spark, text, rows=work.rows(table), wanted=local_frame(spark, table, keys)))
