"""Where a plan runs: a value with its reason, decided from tables without rows."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest

from spark_trickle.algebra.change_operators import Signed
from spark_trickle.algebra.expressions import Comparison, Literal, LiteralKind, Opaque
from spark_trickle.algebra.operators import At, Filter, Generate, Operator, Scan, column
from spark_trickle.algebra.references import Reference, TableRef
from spark_trickle.arrow.evaluate import Lookup
from spark_trickle.arrow.unsupported import Refusal
from spark_trickle.model.execution import Engine
from spark_trickle.refresh.place import Load, Placement, place_plan, try_at_driver
from spark_trickle.settings import Settings

EMPTY = pa.table({"k": pa.array([], pa.int64()), "_w": pa.array([], pa.int32())})
CHANGE = Scan(TableRef(1), (("k", "k"),), At.DELTA)
EXPLODED = Generate(CHANGE, Opaque("explode(sequence(1, k))", frozenset(("k",))), ("n",))
FEW = Load(few_changed=True, few_in_all=False, fits_driver=True)
MANY = Load(few_changed=False, few_in_all=False, fits_driver=True)
DRIVER, ONE_TASK, COLLECTED, EXECUTORS = Engine.DRIVER, Engine.ONE_TASK, Engine.COLLECTED, Engine.EXECUTORS


@dataclass(frozen=True)
class Tables:
    """One table, whose change can be read at the driver or not."""

    refusal: Refusal | None = None
    rehearsal: bool = True

    def without_rows(self) -> Tables:
        return self

    def read_change(self, source: Reference) -> pa.Table | Refusal:
        return self.refusal or EMPTY

    def read_content(self, scan: Scan) -> pa.Table | Refusal:
        return Refusal("too large")

    def read_indexed_rows(self, scan: Scan) -> pa.Table | Refusal:
        return Refusal("not in memory")

    def look_up_rows(self, scan: Scan, column: str, values: pa.Array) -> Lookup | Refusal:
        return Refusal("not in memory")


PLACES = {
    "few rows": (CHANGE, Tables(), FEW, (DRIVER, ONE_TASK, EXECUTORS), "few rows, which need no Spark job"),
    "many rows": (CHANGE, Tables(), MANY, (DRIVER, EXECUTORS), "few rows, which need no Spark job"),
    "an operator that needs Spark": (
        EXPLODED,
        Tables(),
        FEW,
        (ONE_TASK, EXECUTORS),
        "Generate explode(sequence(1, k)) needs Spark; few rows changed",
    ),
    "an expression that needs Spark": (
        Filter(CHANGE, Opaque("hash(k) > 0", frozenset(("k",)))),
        Tables(),
        FEW,
        (ONE_TASK, EXECUTORS),
        "Filter hash(k) > 0 needs Spark; few rows changed",
    ),
    "a change that is too large": (
        CHANGE,
        Tables(Refusal("the change is too large")),
        MANY,
        (EXECUTORS,),
        "the change is too large; there may be many rows",
    ),
    "a table that is too large": (
        Signed(Scan(TableRef(2), (("k", "k"),)), 1),
        Tables(),
        MANY,
        (EXECUTORS,),
        "too large; there may be many rows",
    ),
    "few rows in all": (
        EXPLODED,
        Tables(),
        Load(few_changed=False, few_in_all=True, fits_driver=True),
        (COLLECTED, EXECUTORS),
        "Generate explode(sequence(1, k)) needs Spark; all sources together are few rows",
    ),
    "types that Arrow cannot hold": (
        CHANGE,
        Tables(),
        Load(few_changed=False, few_in_all=True, fits_driver=False),
        (EXECUTORS,),
        "Arrow cannot hold a column of the result; there may be many rows",
    ),
    "everything anew": (
        CHANGE,
        Tables(),
        Load(few_changed=False, few_in_all=True, fits_driver=True, replaces=True),
        (EXECUTORS,),
        "all rows are computed; there may be many rows",
    ),
}


def place(plan: Operator, tables: Tables, load: Load, settings: Settings) -> Placement:
    return place_plan(try_at_driver(plan, tables, load, settings), load)


@pytest.mark.parametrize("name", PLACES)
def test_place(name: str) -> None:
    plan, tables, load, engines, reason = PLACES[name]
    placement = place(plan, tables, load, Settings())
    assert placement.engines == engines
    assert placement.reason == reason


@pytest.mark.parametrize("plan", [CHANGE, EXPLODED])
def test_a_setting_turns_the_driver_off(plan: Operator) -> None:
    placement = place(plan, Tables(), FEW, Settings(small_changes="spark"))
    assert placement.engines == (ONE_TASK, EXECUTORS)
    assert placement.reason == "small_changes = spark; few rows changed"


def test_whoever_takes_over_says_why() -> None:
    placement = place(CHANGE, Tables(), FEW, Settings()).fall_back("a value is too large")
    assert placement == Placement(
        ONE_TASK, "a value is too large; few rows changed", Placement(EXECUTORS, "there may be many rows")
    )


def test_columns_of_a_plan_are_those_of_its_tables() -> None:
    """A rehearsal meets what the plan would meet, such as a column of a type that cannot be compared."""
    wrong = Filter(CHANGE, Comparison("=", column("k"), Literal("a", LiteralKind.STRING)))
    assert place(wrong, Tables(), FEW, Settings()).engine is ONE_TASK
