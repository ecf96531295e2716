"""What a warehouse would publish: rows in Python -> Arrow tables of our types, and what the table holds then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from spark_trickle.model.arrow import arrow_type
from spark_trickle.model.table import TableColumn
from spark_trickle.model.types import ColumnType, Scalar
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.names import quote_name
from spark_trickle.targets.postgres.front import Target, apply_change, create_target

Row = tuple[Any, ...]


def target(*columns: tuple[str, ColumnType | str], **options: Any) -> Target:
    """Columns by name and type; those whose name ends in ! are never null."""
    made = tuple(
        TableColumn(
            n, name.rstrip("!"), Scalar(kind) if isinstance(kind, str) else kind, not name.endswith("!")
        )
        for n, (name, kind) in enumerate(columns, 2)
    )
    given = {"schema": "public", "name": "s", "stream": "main.s", "warehouse": "w1", **options}
    return Target(columns=made, **given)


def table_of(target: Target, rows: Sequence[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(target.columns)
    arrays = [pa.array(v, arrow_type(c.type)) for c, v in zip(target.columns, columns, strict=True)]
    return pa.table(arrays, names=list(target.column_names))


def pieces(target: Target, rows: Iterable[Row], size: int = 3) -> list[pa.Table]:
    """Several small tables, one of them empty."""
    found = list(rows)
    parts = [found[n : n + size] for n in range(0, len(found), size)]
    return [table_of(target, part) for part in [*parts, []]]


def held(connection: Connection, target: Target) -> Counter[Hashable]:
    """The rows of the table by their text."""
    names = ", ".join(f"{quote_name(n)}::text" for n in target.column_names)
    found = connection.execute(f"SELECT {names} FROM {quote_name(target.schema, target.name)}".encode())
    return Counter(tuple(row) for row in found.fetchall())


def texts(rows: Iterable[Row]) -> Counter[Hashable]:
    """What `held` gives for rows of texts and whole numbers."""
    return Counter(tuple(None if v is None else str(v) for v in row) for row in rows)


BAG = target(("a", "long"), ("b", "string"))
KEYED = target(("a!", "long"), ("b", "string"), key=("a",))
LOOSE = target(("a", "long"), ("b", "string"), key=("a",))  # a key that may be null
BOTH = pytest.mark.parametrize("to", [BAG, KEYED, LOOSE], ids=["bag", "keyed", "loose"])


def first(connection: Connection, to: Target, rows: list[Row], snapshot: int = 1) -> None:
    create_target(connection, to)
    apply_change(connection, to, None, snapshot, [], pieces(to, rows))
