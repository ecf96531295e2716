"""Records of a topic -> rows of a table, and what could not be read with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

import pyarrow as pa

from spark_trickle.errors import ResyncNeededError
from spark_trickle.model.arrow import arrow_type
from spark_trickle.model.table import WEIGHT
from spark_trickle.model.types import from_spark
from spark_trickle.sources.interface import RemoteColumn
from spark_trickle.sources.kafka.offsets import Gap
from spark_trickle.sources.kafka.options import EpochUnit, KeyType
from spark_trickle.sources.kafka.values import MisfitError, Read, make_reader

_LAST_MILLISECOND = 253_402_300_799_999  # of the year 9999
PARTITION, OFFSET, TIMESTAMP, KEY = "_partition", "_offset", "_timestamp", "_key"
REJECT_COLUMNS = (
    RemoteColumn("partition", "integer"),
    RemoteColumn("offset", "long"),
    RemoteColumn("timestamp", "timestamp"),
    RemoteColumn("key", "binary"),
    RemoteColumn("value", "binary"),
    RemoteColumn("reason", "string"),
)


class Record(NamedTuple):
    """A record as the broker has it; `timestamp` is in milliseconds."""

    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None


class Image(NamedTuple):
    """What a record says of a row: its fields, or that it is gone."""

    fields: dict[str, Any] | None
    key: Any = None


class TruncatedError(Exception):
    """All rows were deleted by this record, which names none of them."""


Decode = Callable[[Record], Image]


def list_columns(declared: Sequence[RemoteColumn], key: KeyType) -> tuple[RemoteColumn, ...]:
    """The columns of a table: those of the values, and where each of them came from."""
    own = {PARTITION: "integer", OFFSET: "long", TIMESTAMP: "timestamp", KEY: key.value}
    return (*declared, *(RemoteColumn(name, kind) for name, kind in own.items()))


def _count_micros(record: Record) -> int | None:
    """When a record was written; what its writer says may be far beyond all years."""
    if record.timestamp is None or not 0 <= record.timestamp <= _LAST_MILLISECOND:
        return None
    return record.timestamp * 1000


@dataclass
class RecordReader:
    """Reads records in pieces; what does not fit is kept in `rejects`.

    With `reads_all` one piece has all that there is, so a TRUNCATE in it deletes what came before.
    """

    columns: Sequence[RemoteColumn]
    epoch: EpochUnit
    decode: Decode
    reads_all: bool = False
    rejects: list[tuple[Any, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        ids = count()
        kinds = {c.name: from_spark(c.name, c.type, ids) for c in self.columns}
        own = (PARTITION, OFFSET, TIMESTAMP, KEY)
        self._readers: dict[str, Read] = {
            name: make_reader(name, kind, self.epoch) for name, kind in kinds.items() if name not in own
        }
        self._types = {name: arrow_type(kind) for name, kind in kinds.items()}

    def read_rows(self, records: Iterable[Record]) -> pa.Table:
        """Rows with the weight 1, and with −1 what is gone: of those only the key counts."""
        values: list[list[Any]] = [[] for _ in self._types]
        weights: list[int] = []
        for record in records:
            try:
                row, weight = self._read_row(record)
            except MisfitError as error:
                self.reject(record, str(error))
            except RecursionError:
                self.reject(record, "it is nested too deeply")
            except TruncatedError as error:
                if not self.reads_all:
                    raise ResyncNeededError("", str(error)) from None
                weights.clear()
                for column in values:
                    column.clear()
            else:
                weights.append(weight)
                for column, value in zip(values, row, strict=True):
                    column.append(value)
        arrays = [pa.array(v, kind) for v, kind in zip(values, self._types.values(), strict=True)]
        rows = pa.Table.from_arrays(arrays, names=list(self._types))
        return rows.append_column(WEIGHT, pa.array(weights, pa.int32()))

    def _read_row(self, record: Record) -> tuple[list[Any], int]:
        image = self.decode(record)
        fields = image.fields or {}
        row = [read(fields.get(name)) for name, read in self._readers.items()]
        moment = _count_micros(record)
        if moment is None and record.timestamp is not None:
            raise MisfitError(f"its timestamp is {record.timestamp} milliseconds, which is not a TIMESTAMP")
        weight = -1 if image.fields is None else 1
        return [*row, record.partition, record.offset, moment, image.key], weight

    def reject(self, record: Record, reason: str) -> None:
        place = (record.partition, record.offset, _count_micros(record))
        self.rejects.append((*place, record.key, record.value, reason))

    def note_gap(self, gap: Gap) -> None:
        self.rejects.append((gap.partition, gap.first, None, None, None, gap.reason))

    def note_loss(self, reason: str) -> None:
        self.rejects.append((None, None, None, None, None, reason))

    def list_rejects(self) -> pa.Table:
        """What was rejected so far, as rows of the table of rejects."""
        ids = count()
        kinds = {c.name: arrow_type(from_spark(c.name, c.type, ids)) for c in REJECT_COLUMNS}
        columns = zip(*self.rejects, strict=True) if self.rejects else [()] * len(kinds)
        arrays = [pa.array(list(v), kind) for v, kind in zip(columns, kinds.values(), strict=True)]
        return pa.Table.from_arrays(arrays, names=list(kinds))
