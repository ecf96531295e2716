"""A refresh that ran -> what it executed, operator by operator."""

from __future__ import annotations

from typing import Any

from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.lake.catalog.reports import ExecutedRefresh, read_executed
from spark_trickle.model.execution import Engine, Execution, OperatorRun
from spark_trickle.model.table import Table
from spark_trickle.observe.answer import Answer
from spark_trickle.txn.work import Work

_COLUMNS = {
    "started": "timestamp",
    "action": "string",
    "plan": "string",
    "position": "long",
    "operator": "string",
    "engine": "string",
    "rows_in": "long",
    "rows_out": "long",
    "ms": "double",
    "reason": "string",
}


def explain_refresh(work: Work, table: Table, number: int | str = 1) -> Answer:
    """What one of the last refreshes executed, operator by operator; the newest is number 1."""
    if not isinstance(number, int) or number < 1:
        raise InvalidDefinitionError(
            f"there is no refresh number {number}", "Write 1 for the newest refresh, 2 for the one before it."
        )
    with open_reader(work.place.warehouse.engine) as connection:
        done = read_executed(connection, table.id, number)
    if done is None:
        return Answer(_COLUMNS, [])
    operators = [(plan, operator) for plan in done.executions for operator in plan.operators]
    rows = [_make_row(done, plan, n, operator) for n, (plan, operator) in enumerate(operators, start=1)]
    return Answer(_COLUMNS, rows)


def _make_row(
    done: ExecutedRefresh, plan: Execution, position: int, operator: OperatorRun
) -> tuple[Any, ...]:
    """Spark tells how long it took for a plan as a whole: that stands beside its first operator."""
    is_root = operator.depth == 0
    ms = plan.ms if is_root and operator.ms is None else operator.ms
    return (
        done.started,
        done.action,
        plan.plan,
        position,
        "  " * operator.depth + operator.title,
        Engine.ONE_TASK.value if operator.by_job else plan.engine.value,
        operator.rows_in,
        operator.rows_out,
        ms,
        plan.reason if is_root else None,
    )
