"""What fits at the driver, by rows and by bytes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_trickle.model.files import DataFile, Role, split_log
from spark_trickle.model.room import (
    Room,
    room_of_change,
    room_of_refresh,
    room_of_statement,
    room_of_tail,
)
from spark_trickle.model.types import Array, Scalar, find_fixed_width
from spark_trickle.settings import Settings

MIB = 2**20


def file(rows: int, memory: int, deletes: int = 0, as_of: int = 1) -> DataFile:
    return DataFile(f"f{rows}-{as_of}", Role.CHANGE, rows, deletes, 10, 10, as_of, memory=memory)


@pytest.mark.parametrize(
    ("files", "fits"),
    [
        ([], True),
        ([file(100, 1000)], True),
        ([file(101, 10)], False),
        ([file(1, 1001)], False),
        ([file(60, 500), file(40, 500)], True),
        ([file(60, 500), file(41, 1)], False),
        ([file(60, 500), file(1, 501)], False),
    ],
)
def test_both_bounds_hold(files: list[DataFile], fits: bool) -> None:
    assert Room(100, 1000).holds(files) is fits


def test_rows_that_are_there() -> None:
    rows = pa.table({"s": ["x" * 1000] * 3})
    assert Room(3, 4000).has(rows)
    assert not Room(2, 4000).has(rows)
    assert not Room(3, 2999).has(rows)


def test_rooms_follow_the_settings() -> None:
    settings = Settings(max_driver_rows=1000, driver_megabytes=8.0, local_tail_rows=500)
    assert room_of_statement(settings) == Room(1000, 8 * MIB)
    assert room_of_refresh(settings) == Room(5000, 8 * MIB)
    assert room_of_change(settings, 2) == Room(20_000, 16 * MIB)
    assert room_of_tail(settings) == Room(500, 2 * MIB)


def test_a_removed_file_takes_as_much_as_before() -> None:
    assert file(10, 700).make_removal(5).memory == 700


def test_what_deleted_rows_take() -> None:
    log = split_log([file(10, 500), file(100, 9000, deletes=40, as_of=2), file(10, 30, as_of=3)])
    assert log.tail_deletes_memory == 3600
    assert log.tail_memory == 9030


@pytest.mark.parametrize(
    ("kinds", "width"),
    [
        ([], 0),
        (["long", "integer"], 16),
        (["decimal(10,2)"], 16),
        (["long", "string"], None),
        (["varchar(3)"], None),
        (["binary"], None),
    ],
)
def test_fixed_width(kinds: list[str], width: int | None) -> None:
    assert find_fixed_width(map(Scalar, kinds)) == width


def test_a_list_is_as_long_as_it_is() -> None:
    assert find_fixed_width([Array(Scalar("long"), 1)]) is None
