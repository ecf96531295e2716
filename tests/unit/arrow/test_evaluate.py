"""Rows at the driver: what is looked up in a large table, and what must not be."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.change_operators import Keys, Signed, Touched, Untouched
from spark_trickle.algebra.operators import At, Scan, column
from spark_trickle.algebra.references import Reference, TableRef
from spark_trickle.arrow.evaluate import Evaluated, Lookup, evaluate_plan
from spark_trickle.arrow.groups import cancel_out
from spark_trickle.arrow.unsupported import Refusal

CHANGE = pa.table({"k": [1, 1, 2], "_w": pa.array([1, -1, 1], pa.int32())})
LARGE = pa.table({"k": [1, 2, 3, 4], "v": ["a", "b", "c", "d"]})


@dataclass
class LargeTable:
    """One change, and one table that is never read whole."""

    rehearsal: bool = False
    lookups: list[pa.Array] = field(default_factory=list)

    def without_rows(self) -> LargeTable:
        return LargeTable(rehearsal=True)

    def read_change(self, source: Reference) -> pa.Table | Refusal:
        return CHANGE.slice(0, 0) if self.rehearsal else CHANGE

    def read_content(self, scan: Scan) -> pa.Table | Refusal:
        return Refusal("large")

    def read_indexed_rows(self, scan: Scan) -> pa.Table | Refusal:
        return Refusal("not in memory")

    def look_up_rows(self, scan: Scan, name: str, values: pa.Array) -> Lookup:
        self.lookups.append(values)
        return Lookup(LARGE.filter(pc.is_in(LARGE.column(name), value_set=values)))


KEYS = Keys(Scan(TableRef(1), (("k1", "k"),), At.DELTA), (column("k1"),))
ROWS = Scan(TableRef(2), (("k2", "k"), ("v2", "v")), At.NEW)


def test_touched_rows_of_a_large_table_are_looked_up() -> None:
    reader = LargeTable()
    found = evaluate_plan(reader, Signed(Touched(ROWS, (column("k2"),), KEYS), 1))
    assert isinstance(found, Evaluated)
    assert found.rows.column("v2").to_pylist() == ["a", "b"]
    assert [v.to_pylist() for v in reader.lookups] == [[1, 2]]


def test_untouched_rows_of_a_large_table_are_for_spark() -> None:
    """Looked up by the touched keys, none of them would be found."""
    reader = LargeTable()
    assert evaluate_plan(reader, Signed(Untouched(ROWS, (column("k2"),), KEYS), 1)) == Refusal("large")
    assert reader.lookups == []


def test_a_change_is_trimmed_to_what_is_left_of_it() -> None:
    def change(values: list[object], kind: pa.DataType, weights: list[int]) -> pa.Table:
        return pa.table({"v": pa.array(values, kind), "_w": pa.array(weights, pa.int32())})

    def left(rows: pa.Table) -> list[tuple[object, int]]:
        found = cancel_out(rows)
        return list(
            zip(map(repr, found.column("v").to_pylist()), found.column("_w").to_pylist(), strict=True)
        )

    text = change(["a", None, "a", None, "b", "b", "b"], pa.string(), [1, -1, -1, 1, 1, 1, -1])
    assert left(text) == [("'b'", 1)]
    twice = change(["a", "a", "b", "b"], pa.string(), [1, 1, 1, -1])
    assert left(twice) == [("'a'", 1), ("'a'", 1)]
    # Zeros are equal and not the same, one NaN is as good as another.
    floats = change([0.0, -0.0, float("nan"), float("nan")], pa.float64(), [1, -1, 1, -1])
    assert left(floats) == [("0.0", 1), ("-0.0", -1)]
    lists = change([[1], [1]], pa.list_(pa.int32()), [1, -1])
    assert left(lists) == [("[1]", 1), ("[1]", -1)]  # Arrow cannot group them
