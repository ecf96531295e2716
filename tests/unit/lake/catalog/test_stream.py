"""What a failed refresh leaves in the catalog: the error, its count, and a status that the user may have set."""

from __future__ import annotations

import pytest

from spark_trickle.errors import FuseBlownError, QueryError, TrickleError
from spark_trickle.lake.catalog import scheduling, states
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.model.stream import Status, StreamState
from tests.unit.lake.lakes import NOW, Lake

WRONG = QueryError("division by zero", "DIVIDE_BY_ZERO")
TOO_MUCH = FuseBlownError("main.s", 6, 5)


def state(lake: Lake, table_id: int) -> StreamState:
    with open_reader(lake.warehouse.engine) as connection:
        return states.read_state(connection, table_id)


@pytest.mark.parametrize(
    ("before", "failure", "after"),
    [
        (None, WRONG, Status.ERROR),
        (None, TOO_MUCH, Status.FUSED),
        (Status.ACTIVE, WRONG, Status.ERROR),
        (Status.ACTIVE, TOO_MUCH, Status.FUSED),
        (Status.ERROR, TOO_MUCH, Status.FUSED),
        (Status.SUSPENDED, WRONG, Status.SUSPENDED),
        (Status.SUSPENDED, TOO_MUCH, Status.SUSPENDED),
    ],
)
def test_a_failure(lake: Lake, before: Status | None, failure: TrickleError, after: Status) -> None:
    engine, table = lake.warehouse.engine, lake.create(f"t{lake.newest().id}")
    if before is not None:
        scheduling.set_status(engine, table.id, before, None)
    for times in (1, 2):
        states.record_failure(engine, table.id, NOW, failure)
        found = state(lake, table.id)
        assert (found.status, found.error, found.errors_in_a_row) == (after, str(failure), times)
