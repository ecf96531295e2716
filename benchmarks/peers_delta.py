"""A view in a Delta Lake table that is kept by hand: the change of the source -> its change -> one MERGE."""

from __future__ import annotations

from importlib.util import find_spec

import duckdb
import pyarrow as pa

from benchmarks.regions import SCENARIOS
from spark_trickle.session import Trickle

_GROUPED = {"aggregate": "region", "join_agg": "region_name"}
# What becomes of rows of `change`, which has one row for each id that changed; `here` tells whether it stays.
_BY_HAND = {
    "scan": "SELECT id, region, category, amount, score, here FROM change",
    "filter": "SELECT id, region, amount, here AND amount > 5000 AS here FROM change",
    "join": "SELECT c.id, c.region, c.amount, d.region_name, here FROM change c JOIN dim d USING (region)",
    "aggregate": "SELECT region, sum(amount * w)::BIGINT AS total, sum(w)::BIGINT AS cnt "
    "FROM signed GROUP BY region",
    "join_agg": "SELECT d.region_name, sum(amount * w)::BIGINT AS total, sum(w)::BIGINT AS cnt "
    "FROM signed JOIN dim d USING (region) GROUP BY d.region_name",
}


def delta_is_installed() -> bool:
    return find_spec("deltalake") is not None


class Merged:
    """Knows which rows changed without having to look for them: that is our change feed, not timed."""

    def __init__(self, tr: Trickle, path: str, name: str) -> None:
        from deltalake import write_deltalake

        self._tr, self._path, self._name = tr, path, name
        self._duck = duckdb.connect()
        self._duck.register("dim", tr.table("dim").toArrow())
        self._feed = pa.table({})
        self._names: list[str] = []
        write_deltalake(path, tr.sql(SCENARIOS[name]).toArrow())

    def changed(self, since: int) -> None:
        feed = self._tr.changes("src", since).withColumnRenamed("_change_type", "kind")
        self._feed = feed.drop("_commit_timestamp").toArrow()

    def refresh(self) -> None:
        from deltalake import DeltaTable

        merge = DeltaTable(self._path).merge(
            self._change(), predicate=self._predicate(), source_alias="s", target_alias="t"
        )
        if self._name in _GROUPED:
            sums = {"total": "t.total + s.total", "cnt": "t.cnt + s.cnt"}
            merge = merge.when_matched_update(sums).when_not_matched_insert_all()
        else:
            merge = (
                merge.when_matched_delete("s.here = false")
                .when_matched_update(self._columns())
                .when_not_matched_insert(self._columns(), predicate="s.here = true")
            )
        merge.execute()

    def check(self) -> None:
        """The table must hold what the query gives."""
        from deltalake import DeltaTable

        self._duck.register("found", DeltaTable(self._path).to_pyarrow_table())
        self._duck.register("wanted", self._tr.sql(SCENARIOS[self._name]).toArrow())
        names = ", ".join(c for c in self._duck.table("wanted").columns)
        found, wanted = f"SELECT {names} FROM found", f"SELECT {names} FROM wanted"
        difference = f"({found} EXCEPT ALL {wanted}) UNION ALL ({wanted} EXCEPT ALL {found})"
        assert self._duck.execute(difference).fetchall() == [], self._name

    def _change(self) -> pa.Table:
        self._duck.register("feed", self._feed)
        self._duck.execute(
            "CREATE OR REPLACE VIEW signed AS SELECT *, "
            "CASE WHEN kind IN ('insert', 'update_postimage') THEN 1 ELSE -1 END AS w FROM feed"
        )
        # A row that changed more than once counts as it was last; an insert comes after a delete.
        self._duck.execute(
            "CREATE OR REPLACE VIEW change AS SELECT *, w = 1 AS here FROM signed "
            "QUALIFY row_number() OVER (PARTITION BY id ORDER BY _commit_version DESC, w DESC) = 1"
        )
        change = self._duck.execute(_BY_HAND[self._name]).to_arrow_table()
        self._names = change.column_names
        return change

    def _predicate(self) -> str:
        key = _GROUPED.get(self._name, "id")
        return f"t.{key} = s.{key}"

    def _columns(self) -> dict[str, str]:
        return {name: f"s.{name}" for name in self._names if name != "here"}
