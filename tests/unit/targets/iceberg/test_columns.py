"""Which columns of an Iceberg table keep their ids when the stream table changes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

import pytest

from spark_trickle.model.table import Table, TableColumn
from spark_trickle.model.types import Array, ColumnType, Scalar, Struct, StructField
from spark_trickle.targets.iceberg.columns import has_columns, make_schema


def make_table(columns: Mapping[str, str | ColumnType]) -> Table:
    made = tuple(
        TableColumn(n + 70, name, Scalar(kind) if isinstance(kind, str) else kind)
        for n, (name, kind) in enumerate(columns.items())
    )
    return Table(1, "main", "s", made, (), False, "", 99, 1)


def make_struct(**parts: str) -> Struct:
    return Struct(tuple(StructField(n, name, Scalar(kind)) for n, (name, kind) in enumerate(parts.items())))


# The columns before and after, and the ids that they have then; new ones begin at 100.
STEPS: list[tuple[dict[str, str | ColumnType], dict[str, str | ColumnType], list[int]]] = [
    ({"a": "integer", "b": "string"}, {"a": "integer", "b": "string"}, [1, 2]),
    ({"a": "integer"}, {"a": "long"}, [1]),
    ({"a": "byte"}, {"a": "short"}, [1]),
    ({"a": "float"}, {"a": "double"}, [1]),
    ({"a": "decimal(5,2)"}, {"a": "decimal(9,2)"}, [1]),
    ({"a": "decimal(5,2)"}, {"a": "decimal(9,3)"}, [100]),
    ({"a": "long"}, {"a": "integer"}, [100]),
    ({"a": "integer"}, {"a": "string"}, [100]),
    ({"a": "varchar(3)"}, {"a": "string"}, [1]),
    ({"a": "date", "b": "date"}, {"b": "date", "a": "date"}, [2, 1]),
    ({"a": "date"}, {"c": "date"}, [100]),
    ({"a": "integer"}, {"a": Array(Scalar("integer"), 0)}, [100]),
    ({"s": make_struct(x="integer")}, {"s": make_struct(x="long", y="integer")}, [1]),
]


@pytest.mark.parametrize(("before", "after", "ids"), STEPS)
def test_a_column_keeps_its_id(
    before: dict[str, str | ColumnType], after: dict[str, str | ColumnType], ids: list[int]
) -> None:
    known = make_schema(make_table(before), count(1))
    made = make_schema(make_table(after), count(100), known)
    assert [f.field_id for f in made.fields] == ids
    assert [f.name for f in made.fields] == list(after)
    assert has_columns(make_table(after), made)
    same = str(make_schema(make_table(before), count(1))) == str(make_schema(make_table(after), count(1)))
    assert has_columns(make_table(after), known) is same


def test_parts_keep_their_ids() -> None:
    known = make_schema(make_table({"s": Array(make_struct(x="integer"), 0)}), count(1))
    made = make_schema(make_table({"s": Array(make_struct(y="date", x="long"), 0)}), count(100), known)
    found = {
        name: made.find_field(name).field_id for name in ("s", "s.element", "s.element.x", "s.element.y")
    }
    before = {name: known.find_field(name).field_id for name in ("s", "s.element", "s.element.x")}
    assert found == {**before, "s.element.y": 100}
