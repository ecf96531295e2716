"""The changes of sources -> those that a stream table reads: an update of other columns is none."""

from __future__ import annotations

from collections.abc import Set

import pyarrow.compute as pc

from spark_trickle.algebra.references import Reference
from spark_trickle.arrow.unsupported import Refusal
from spark_trickle.model.arrow import is_nothing
from spark_trickle.model.room import room_of_statement
from spark_trickle.model.table import WEIGHT
from spark_trickle.refresh.driver_inputs import DriverInputs
from spark_trickle.refresh.inputs import Inputs


def find_seen_changes(inputs: Inputs, changed: Set[Reference]) -> frozenset[Reference]:
    """The sources in which something changed that is read."""
    return frozenset(name for name in changed if not _cancels_out(DriverInputs(inputs), name))


def _cancels_out(here: DriverInputs, name: Reference) -> bool:
    source, table = here.inputs.source(name), here.inputs.table(name)
    assert source is not None
    assert table is not None
    read = [c.name for c in source.columns]
    if not read or len(read) == len(table.columns):
        return False
    rows = here.read_change(name)
    if isinstance(rows, Refusal) or not room_of_statement(here.inputs.work.place.settings).has(rows):
        return False
    if pc.sum(rows.column(WEIGHT)).as_py() != 0:  # what cancels comes as often as it goes
        return False
    return is_nothing(rows, read)
