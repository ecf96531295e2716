"""A DataFrame -> its rows at the driver, if there is room for them.

Nobody knows how long the texts of a query are before it has run, and a driver that takes too much of them
dies. So rows come with their size, and those that are too long for their place come without their values: the
sizes tell whether all of them fit, and they are fetched again, or they stay on the executors.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_trickle.errors import ResultTooLargeError
from spark_trickle.model.room import Room
from spark_trickle.spark.run import collect, select_columns
from spark_trickle.spark.types import make_nullable
from spark_trickle.spark.width import Width, width_of
from spark_trickle.sql.lexer.words import quote

_BYTES = "_trickle_bytes"
# The first row of a partition may be so long, the tenth a tenth of it: few long rows come at once, and all of
# a partition are a few times as much.
_FIRST_ROW = 4 * 2**20
_PLACES = 2**33 - 1  # in a partition, the lower bits of a row's number
_FEW = 20  # rows that come as they are
_LONGER = 2  # times as long as rows were so far may they be


@dataclass(frozen=True)
class TooLarge:
    """The driver has no room for the rows of a frame."""

    reason: str


def collect_within(frame: DataFrame, room: Room, row_bytes: int | None = None) -> pa.Table | TooLarge:
    """The rows of a frame, or why there is no room for them.

    `row_bytes` is what rows of this kind took so far. To measure them costs as much as a small job.
    """
    if row_bytes is None:
        return _collect_measured(frame, room, None)
    most = min(room.rows, room.bytes // max(_LONGER * row_bytes, 1))
    return _collect_counted(frame, most, room)


def collect_few(frame: DataFrame, room: Room) -> pa.Table | None:
    """The rows of a frame, if they are few."""
    return _take_few(_collect_measured(frame, room, None))


def collect_known(frame: DataFrame, room: Room, rows: int) -> pa.Table | None:
    """The same where there are no more than so many rows: Spark need not count them."""
    return _take_few(_collect_allowed(frame) if rows <= _FEW else _collect_measured(frame, room, rows))


def _take_few(found: pa.Table | TooLarge) -> pa.Table | None:
    return None if isinstance(found, TooLarge) else found


def _collect_allowed(frame: DataFrame) -> pa.Table | TooLarge:
    """All rows, unless Spark itself refuses to bring so much."""
    try:
        return collect(frame)
    except ResultTooLargeError:
        return TooLarge("the result is more than Spark brings to the driver")


def _collect_counted(frame: DataFrame, most: int, room: Room) -> pa.Table | TooLarge:
    rows = _collect_allowed(frame.limit(most + 1))
    if isinstance(rows, TooLarge) or rows.num_rows <= most:
        return rows
    return _refuse_rows(most, room)


def _refuse_rows(most: int, room: Room) -> TooLarge:
    text = f"the result has more than {most:,} rows"
    return TooLarge(text if most == room.rows else f"{text}, which may take more than {room.bytes:,} bytes")


def _collect_measured(frame: DataFrame, room: Room, known: int | None) -> pa.Table | TooLarge:
    names = frame.columns
    if len({n.lower() for n in names}) < len(names):
        frame = frame.toDF(*[f"_{n}" for n in range(len(names))])
    width = width_of(frame.schema.fields)
    most = min(room.rows, room.bytes // max(width.fixed, 1))
    if known is not None and known > most:
        return _refuse_rows(most, room)
    if width.rest is None:
        rows = _collect_counted(frame, most, room) if known is None else _collect_allowed(frame)
    else:
        rows = _collect_short(frame, width, room, most, known)
    return rows if isinstance(rows, TooLarge) else rows.rename_columns(names)


def _collect_short(
    frame: DataFrame, width: Width, room: Room, most: int, known: int | None
) -> pa.Table | TooLarge:
    measured = _measure_rows(frame, width, room.bytes // max(most if known is None else known, 1))
    rows = _collect_allowed(measured.limit(most + 1) if known is None else measured)
    if isinstance(rows, TooLarge):
        return rows
    if rows.num_rows > most:
        return _refuse_rows(most, room)
    sizes = rows.column(_BYTES)
    if (pc.sum(pc.abs(sizes)).as_py() or 0) > room.bytes:
        return TooLarge(f"the result takes more than {room.bytes:,} bytes")
    left_out = rows.num_rows > 0 and pc.min(sizes).as_py() < 0
    return _collect_allowed(frame) if left_out else rows.drop_columns([_BYTES])


def _measure_rows(frame: DataFrame, width: Width, always: int) -> DataFrame:
    """Each row with its size, which is negative where what makes the row long is left out."""
    place = f"(monotonically_increasing_id() & {_PLACES}L) + 1L"
    most = f"greatest({always}L, {_FIRST_ROW}L div ({place}))"
    size = f"IF({width.sql} <= {most}, 1L, -1L) * {width.sql}"
    kept = [
        f"IF({_BYTES} > 0, {name}, NULL) AS {name}" if width_of([f]).rest else name
        for f in frame.schema.fields
        for name in [quote(f.name)]
    ]
    return select_columns(select_columns(_make_nullable(frame), "*", f"{size} AS {_BYTES}"), *kept, _BYTES)


def _make_nullable(frame: DataFrame) -> DataFrame:
    """Columns that may be null with all their parts: Arrow takes no null whose parts may not be null."""
    kinds = {f.name: make_nullable(f.dataType) for f in frame.schema.fields}
    strict = [f.name for f in frame.schema.fields if f.dataType != kinds[f.name]]
    return frame.withColumns({n: F.col(quote(n)).cast(kinds[n]) for n in strict}) if strict else frame
