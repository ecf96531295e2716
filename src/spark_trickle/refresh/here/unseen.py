"""The changes of sources -> those that a stream table sees: an update of columns it does not read is none."""

from __future__ import annotations

from collections.abc import Set

import pyarrow.compute as pc

from spark_trickle.model.arrow import is_nothing
from spark_trickle.model.table import WEIGHT
from spark_trickle.refresh.here.at_driver import AtDriver
from spark_trickle.refresh.inputs import Inputs, source_table


def seen(inputs: Inputs, changed: Set[str]) -> set[str]:
    """The sources in which something changed that is read."""
    return {name for name in changed if not _cancels(inputs, name)}


def _cancels(inputs: Inputs, name: str) -> bool:
    source = next(s for s in inputs.stream.sources if f"t{s.table_id}" == name)
    table = source_table(inputs.work, source)
    read = [n for n, _, _ in source.columns]
    if not read or len(read) == len(table.columns):
        return False
    rows = AtDriver(inputs).change_here(name)
    if rows is None or rows.num_rows > inputs.work.place.settings.max_driver_rows:
        return False
    if pc.sum(rows.column(WEIGHT)).as_py() != 0:  # what cancels comes as often as it goes
        return False
    return is_nothing(rows, read)
