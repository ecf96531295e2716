"""The inputs of a refresh -> what is known of their size, by which joins are ordered."""

from __future__ import annotations

from spark_trickle.algebra.references import Reference, TableRef
from spark_trickle.model.table import Table
from spark_trickle.plan.sizes import Sizes
from spark_trickle.refresh.inputs import Inputs
from spark_trickle.txn.work import Work


def sizes_of(inputs: Inputs) -> Sizes:
    def count_rows(name: Reference) -> int:
        table = inputs.table(name)
        return 1 if table is None else inputs.work.row_count(table)  # rows that were found are few

    def count_changed(name: Reference) -> int:
        change = inputs.changes.get(name)
        if change is not None:
            return change.count
        table = inputs.table(name)
        if table is None or name in inputs.tables:
            return 1
        return sum(f.rows for f in inputs.source_change(table))

    def find_key(name: Reference) -> tuple[str, ...]:
        table = inputs.table(name)
        return () if table is None else tuple(c.name for c in table.distinct_by)

    settings = inputs.work.place.settings
    return Sizes(count_rows, count_changed, find_key, settings.max_refresh_rows, settings.max_driver_rows)


def sizes_of_catalog(work: Work) -> Sizes:
    """Of a query that is no stream table yet: its tables are known, and its nodes have no rows."""
    settings = work.place.settings

    def find_table(name: Reference) -> Table | None:
        return work.catalog.table_by_id(name.id) if isinstance(name, TableRef) else None

    def count_rows(name: Reference) -> int:
        found = find_table(name)
        return 0 if found is None else work.row_count(found)

    def find_key(name: Reference) -> tuple[str, ...]:
        found = find_table(name)
        return () if found is None else tuple(c.name for c in found.distinct_by)

    return Sizes(count_rows, lambda _: 1, find_key, settings.max_refresh_rows, settings.max_driver_rows)
