"""The inputs of a refresh -> what is known of their size, by which joins are ordered."""

from __future__ import annotations

from spark_trickle.algebra.references import Reference
from spark_trickle.plan.sizes import Sizes
from spark_trickle.refresh.inputs import Inputs


def sizes_of(inputs: Inputs) -> Sizes:
    def rows(name: Reference) -> int:
        table = inputs.table(name)
        return 1 if table is None else inputs.work.row_count(table)  # rows that were found are few

    def changed(name: Reference) -> int:
        if name in inputs.rows:
            return int(inputs.rows[name].num_rows)
        table = inputs.table(name)
        if table is None or name in inputs.tables:
            return 1
        return sum(f.rows for f in inputs.source_change(table))

    def key(name: Reference) -> tuple[str, ...]:
        table = inputs.table(name)
        return () if table is None else tuple(c.name for c in table.distinct_by)

    return Sizes(rows, changed, key, few=inputs.work.place.settings.max_refresh_rows)
