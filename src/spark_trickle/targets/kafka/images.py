"""Rows of a stream table -> the keys and rows of records, as JSON texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from spark_trickle.model.arrow import arrow_type
from spark_trickle.model.table import TableColumn
from spark_trickle.targets.kafka.values import quote_text, write_column


class RowImage(NamedTuple):
    """A row as its records show it: equal rows have one text, and so have equal keys."""

    key: str
    row: str


class ImageWriter:
    """Rows without a key are told apart by all that they hold."""

    def __init__(self, columns: Sequence[TableColumn], key: Sequence[str]) -> None:
        self._columns = columns
        self._key = [index for name in key for index, c in enumerate(columns) if c.name == name]

    def write_rows(self, rows: pa.Table) -> Iterator[RowImage]:
        texts = [self._write_fields(c, rows) for c in self._columns]
        shown = _join_fields(texts)
        keys = _join_fields([texts[index] for index in self._key]) if self._key else shown
        return map(RowImage, keys, shown)

    def _write_fields(self, column: TableColumn, rows: pa.Table) -> list[str]:
        start = f"{quote_text(column.name)}:"
        values = rows.column(column.name).cast(arrow_type(column.type))
        return [start + text for text in write_column(column.name, column.type, values)]


def _join_fields(texts: Sequence[Sequence[str]]) -> list[str]:
    return ["{" + ",".join(fields) + "}" for fields in zip(*texts, strict=True)]
