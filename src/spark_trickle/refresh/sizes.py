"""The inputs of a refresh -> what is known of their size, by which joins are ordered."""

from __future__ import annotations

from spark_trickle.plan.sizes import Sizes
from spark_trickle.refresh.inputs import Inputs
from spark_trickle.txn.work import Work


def sizes_of(inputs: Inputs) -> Sizes:
    def rows(name: str) -> int:
        table = inputs.table(name)
        return 1 if table is None else inputs.work.row_count(table)  # rows that were found are few

    def changed(name: str) -> int:
        change = inputs.changes.get(name)
        if change is not None and change.rows is not None:
            return int(change.rows.num_rows)
        table = inputs.table(name)
        if table is None or name in inputs.tables:
            return 1
        return sum(f.rows for f in inputs.source_change(table))

    def key(name: str) -> tuple[str, ...]:
        table = inputs.table(name)
        return () if table is None else tuple(c.name for c in table.distinct_by)

    settings = inputs.work.place.settings
    return Sizes(rows, changed, key, settings.max_refresh_rows, settings.max_driver_rows)


def sizes_of_catalog(work: Work) -> Sizes:
    """Of a query that is no stream table yet: its tables are known, and its nodes have no rows."""
    settings = work.place.settings

    def rows(name: str) -> int:
        table = work.catalog.table_by_id(int(name[1:])) if name.startswith("t") else None
        return 0 if table is None else work.row_count(table)

    def key(name: str) -> tuple[str, ...]:
        table = work.catalog.table_by_id(int(name[1:])) if name.startswith("t") else None
        return () if table is None else tuple(c.name for c in table.distinct_by)

    return Sizes(rows, lambda _: 1, key, settings.max_refresh_rows, settings.max_driver_rows)
