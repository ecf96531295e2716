"""Columns in memory: what is found in them is what the files hold, and they stay within their budget."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from spark_trickle.errors import DamagedFileError
from spark_trickle.lake.cache.column_index import ColumnIndex
from spark_trickle.lake.storage.files import Storage
from spark_trickle.model.arrow import arrow_schema
from spark_trickle.model.files import DataFile, Role
from spark_trickle.model.table import WEIGHT, Table, TableColumn
from spark_trickle.model.types import Scalar

MANY = 10**9
TABLE = Table(
    id=1,
    schema="main",
    name="t",
    columns=(
        TableColumn(11, "k", Scalar("long")),
        TableColumn(12, "v", Scalar("string")),
        TableColumn(13, "d", Scalar("double")),
    ),
    key=(),
    key_enforced=False,
    path="t/",
    next_column_id=14,
    view_id=2,
)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    (tmp_path / "_trickle").mkdir()
    return Storage.open(str(tmp_path), "s")


def stored(storage: Storage, name: str, rows: list[tuple[int | None, str, int]]) -> DataFile:
    columns = [list(c) for c in zip(*((k, v, 0.5, w) for k, v, w in rows), strict=True)]
    made = pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, arrow_schema(TABLE), strict=True)],
        schema=arrow_schema(TABLE),
    )
    storage.write(TABLE, name, made, "zstd")
    return storage.describe(TABLE, name, Role.CHANGE, 1, made.nbytes)


def files(storage: Storage) -> list[DataFile]:
    return [
        stored(storage, "a.parquet", [(1, "x", 1), (2, "y", 1), (None, "z", 1), (2, "x", 1)]),
        stored(storage, "b.parquet", [(2, "y", -1), (3, "y", 1)]),
    ]


def found(
    index: ColumnIndex, table: Table, where: list[DataFile], by: str, values: pa.Array, most: int = MANY
) -> object:
    rows = index.find(table, where, ["v"], by, values, most)
    return (
        None
        if rows is None
        else sorted(zip(*(rows.column(c).to_pylist() for c in ("v", WEIGHT)), strict=True))
    )


def test_the_first_look_is_for_spark_and_the_second_finds_rows(storage: Storage) -> None:
    index, where = ColumnIndex(storage, MANY), files(storage)
    assert found(index, TABLE, where, "k", pa.array([2, 7])) is None
    assert found(index, TABLE, where, "k", pa.array([2, 7])) == [("x", 1), ("y", -1), ("y", 1)]
    assert index.lookups == 1
    assert found(index, TABLE, where, "v", pa.array(["x"])) is None
    assert found(index, TABLE, where[:1], "k", pa.array([], pa.int64())) == []


def test_all_rows(storage: Storage) -> None:
    index, where = ColumnIndex(storage, MANY), files(storage)
    assert index.read_rows(TABLE, where, ["k"]) is None
    rows = index.read_rows(TABLE, where, ["k"])
    assert rows is not None
    assert rows.column("k").to_pylist() == [1, 2, None, 2, 2, 3]
    assert rows.column(WEIGHT).to_pylist() == [1, 1, 1, 1, -1, 1]


def test_columns_are_found_by_their_ids_and_new_ones_are_null(storage: Storage) -> None:
    where = files(storage)
    later = replace(
        TABLE,
        columns=(
            TableColumn(11, "key.new", Scalar("long")),
            *TABLE.columns[1:],
            TableColumn(14, "n", Scalar("date")),
        ),
    )
    index = ColumnIndex(storage, MANY)
    index.find(later, where, ["v", "n"], "key.new", pa.array([1]), MANY)
    rows = index.find(later, where, ["v", "n"], "key.new", pa.array([1]), MANY)
    assert rows is not None
    assert rows.to_pylist() == [{"v": "x", "n": None, WEIGHT: 1}]


def test_a_column_of_another_type_is_read_again(storage: Storage) -> None:
    where = files(storage)
    index = ColumnIndex(storage, MANY)
    for _ in range(2):
        index.find(TABLE, where, ["k"], "k", pa.array([1]), MANY)
    wide = replace(TABLE, columns=(TableColumn(11, "k", Scalar("decimal(20,0)")), *TABLE.columns[1:]))
    rows = index.find(wide, where, ["k"], "k", pa.array([1], pa.decimal128(20, 0)), MANY)
    assert rows is not None
    assert rows.schema.field("k").type == pa.decimal128(20, 0)
    rows = index.find(replace(TABLE), where, ["k"], "k", pa.array([1]), MANY)
    assert rows is not None
    assert rows.schema.field("k").type == pa.int64()


def test_too_many_rows_are_for_spark(storage: Storage) -> None:
    index, where = ColumnIndex(storage, MANY), files(storage)
    found(index, TABLE, where, "k", pa.array([2]))
    assert found(index, TABLE, where, "k", pa.array([2]), most=2) is None
    assert found(index, TABLE, where, "k", pa.array([2]), most=3) is not None


def test_the_budget_is_kept(storage: Storage) -> None:
    where = [
        stored(storage, f"{n}.parquet", [(i * 7919 % 1000, f"v{i}", 1) for i in range(1000)])
        for n in range(4)
    ]
    index = ColumnIndex(storage, 35_000)
    assert found(index, TABLE, where[:1], "k", pa.array([2])) is None  # the first look
    assert found(index, TABLE, where, "k", pa.array([2])) is None  # all four at once are too much
    for file in where:
        assert found(index, TABLE, [file], "k", pa.array([7919 % 1000])) == [("v1", 1)]
        assert index.bytes <= 35_000
    assert index.bytes > 0
    index.resize(10_000)
    assert index.bytes <= 10_000


def test_the_budget_is_kept_when_a_look_finds_too_much(storage: Storage) -> None:
    """Texts are longer than was thought, and read for nothing."""
    where = [stored(storage, "long.parquet", [(1, f"{i:0100}", 1) for i in range(1000)])]
    index = ColumnIndex(storage, 30_000)
    for _ in range(2):
        assert found(index, TABLE, where, "k", pa.array([1]), most=10) is None
    assert index.bytes <= 30_000


def test_a_missing_file_is_told_of(storage: Storage) -> None:
    index, where = ColumnIndex(storage, MANY), files(storage)
    found(index, TABLE, where, "k", pa.array([2]))
    Path(storage.path(TABLE, "b.parquet")).unlink()
    with pytest.raises(DamagedFileError):
        found(index, TABLE, where, "k", pa.array([2]))


def test_refreshes_at_the_same_time_look_things_up_beside_each_other(storage: Storage) -> None:
    """Each column of a file is read by one of them; what is remembered stays within the budget."""
    where = [
        stored(storage, f"many{n}.parquet", [(i, f"v{i}", 1) for i in range(n, 4000, 4)]) for n in range(4)
    ]
    index = ColumnIndex(storage, MANY)
    found(index, TABLE, where, "k", pa.array([1]))
    with ThreadPoolExecutor(8) as pool:
        wanted = [[n % 4000, n * 7 % 4000] for n in range(200)]
        rows = list(
            pool.map(lambda keys: found(index, TABLE, where, "k", pa.array(sorted(set(keys)))), wanted)
        )
    assert rows == [sorted((f"v{k}", 1) for k in set(keys)) for keys in wanted]
    alone = ColumnIndex(storage, MANY)
    for _ in range(2):
        found(alone, TABLE, where, "k", pa.array([1]))
    assert index.bytes == alone.bytes


def test_crowds_are_forgotten_when_there_are_too_many(storage: Storage) -> None:
    index, both = ColumnIndex(storage, MANY), files(storage)
    for n in range(200):
        index.note_crowded(TABLE, both, f"c{n}", pa.array(range(1_000)), 100)
    known = [index.is_crowded(TABLE, both, f"c{n}", pa.array(range(1_000)), 100) for n in range(200)]
    assert known == [False] * 100 + [True] * 100


def test_values_that_had_too_many_rows_are_not_sought_again(storage: Storage) -> None:
    index, both = ColumnIndex(storage, MANY), files(storage)
    hot, more, others = pa.array([2, 3]), pa.array([1, 2, 3]), pa.array([2, 4, 5])
    assert not index.is_crowded(TABLE, both, "k", hot, 100)
    index.note_crowded(TABLE, both, "k", hot, 100)
    assert index.is_crowded(TABLE, both, "k", hot, 100)
    assert index.is_crowded(TABLE, both, "k", more, 100)
    assert not index.is_crowded(TABLE, both, "k", others, 100)
    assert not index.is_crowded(TABLE, both, "d", hot, 100)
    assert not index.is_crowded(TABLE, both, "k", hot, 200)  # more rows may come
    assert not index.is_crowded(TABLE, both[1:], "k", hot, 100)  # a third of the table is left
