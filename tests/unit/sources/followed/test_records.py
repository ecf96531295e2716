"""Of rows with the same key the last one counts, however they are cut into pieces."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_trickle.model.table import WEIGHT, Table, TableColumn
from spark_trickle.model.types import Scalar
from spark_trickle.sources.followed.records import take_last

TABLE = Table(
    id=1,
    schema="main",
    name="t",
    columns=(TableColumn(3, "v", Scalar("long")), TableColumn(4, "k", Scalar("string"), nullable=False)),
    key=(4,),
    key_enforced=True,
    path="t/",
    next_column_id=5,
    view_id=2,
)
_rows = st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc"), st.sampled_from([1, -1])))


@given(st.lists(_rows, max_size=4))
def test_the_last_image_of_each_key(pieces: list[list[tuple[int, str, int]]]) -> None:
    types = {"v": pa.int64(), "k": pa.string(), WEIGHT: pa.int32()}
    made = [
        pa.table({n: pa.array([r[i] for r in rows], t) for i, (n, t) in enumerate(types.items())})
        for rows in pieces
    ]
    expected = {k: (v, k, w) for rows in pieces for v, k, w in rows}
    found = [tuple(r[n] for n in types) for r in take_last(TABLE, made).to_pylist()]
    assert sorted(found) == sorted(expected.values())
