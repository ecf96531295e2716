"""Iceberg tables in place: written with `pyiceberg`, which also says what every snapshot holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyiceberg.expressions import EqualTo

import spark_trickle
from spark_trickle.session import Trickle
from tests.sources.iceberg_tables import IcebergLake, compact
from tests.sources.lakes import FIRST, check_change, check_exact, orders, shops


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    made = IcebergLake(tmp_path / "lake")
    made.create(orders(FIRST))
    made.create(shops(("a", "Ann"), ("b", "Ben"), ("b", "Bo")), "shops")
    return made


@pytest.fixture
def tr(tmp_path: Path) -> Iterator[Trickle]:
    with spark_trickle.connect(tmp_path / "warehouse") as connection:
        yield connection


def nothing(lake: IcebergLake) -> None: ...


def compact_two(lake: IcebergLake) -> None:
    lake.append((4, "b", 1))
    compact(lake.table())


def roll_back_and_on(lake: IcebergLake) -> None:
    lake.append((4, "b", 1), (5, "c", 2))
    lake.table().delete(EqualTo("id", 4))
    lake.upsert((1, "a", 11), (6, "c", 1))


Operation = Callable[[IcebergLake], None]
# What an application did, and how many rows came and went by that.
OPERATIONS: dict[str, tuple[Operation, tuple[int, int]]] = {
    "append": (lambda lake: lake.append((4, "b", 1), (4, "b", 1)), (2, 0)),
    "delete some rows": (lambda lake: lake.table().delete(EqualTo("id", 3)), (0, 2)),
    "delete everything": (lambda lake: lake.table().delete(), (0, 4)),
    "overwrite": (
        lambda lake: lake.table().overwrite(lake.align(orders([(1, "a", 10), (8, "c", 5)]))),
        (2, 4),
    ),
    "overwrite some rows": (
        lambda lake: lake.table().overwrite(lake.align(orders([(1, "a", 7)])), EqualTo("id", 1)),
        (1, 1),
    ),
    "upsert": (lambda lake: lake.upsert((2, "a", 7), (9, "c", 1)), (2, 1)),
    "no rows": (lambda lake: lake.table().append(orders(FIRST).slice(0, 0)), (0, 0)),
    "nothing": (nothing, (0, 0)),
    "compact": (lambda lake: compact(lake.table()), (0, 0)),
    "append and compact": (compact_two, (1, 0)),
    "append, delete, upsert": (roll_back_and_on, (3, 1)),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", list(OPERATIONS))
def test_an_operation_is_followed(tr: Trickle, lake: IcebergLake, name: str) -> None:
    lake.follow(tr)
    check_exact(tr, lake)
    operation, expected = OPERATIONS[name]
    operation(lake)
    check_change(tr, lake, "ice", expected)
