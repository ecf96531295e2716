"""What a refresh executed: its plans, where each ran, and what its operators took."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from enum import StrEnum


class Engine(StrEnum):
    """Where a plan is computed, and who stores its rows."""

    DRIVER = "driver"  # with Arrow; no Spark job but one that fetches rows of a large table
    ONE_TASK = "one Spark task"  # the driver stores the rows
    STORING_TASK = "one Spark task, which stores the rows"  # Arrow cannot hold them
    COLLECTED = "Spark, collected"  # by as many tasks as Spark likes; the driver stores the rows
    EXECUTORS = "Spark"  # the executors store the rows

    @property
    def takes_few(self) -> bool:
        """Whether its plans are made for few changed rows."""
        return self in (Engine.DRIVER, Engine.ONE_TASK, Engine.STORING_TASK)

    @property
    def stores_at_driver(self) -> bool:
        """Whether the driver has the rows, and stores them."""
        return self in (Engine.DRIVER, Engine.ONE_TASK, Engine.COLLECTED)


@dataclass(frozen=True)
class OperatorRun:
    """One operator, and what is known of its run: Spark tells only of its inputs and of the whole."""

    depth: int  # in its plan
    title: str
    rows_in: int | None = None
    rows_out: int | None = None
    ms: float | None = None  # without its inputs; at the driver
    by_job: bool = False  # at the driver: a Spark job fetched the rows


@dataclass(frozen=True)
class Execution:
    """One plan of a refresh: the change of a node, or a step that was computed before it."""

    plan: str  # n1, or n1 k1
    engine: Engine
    reason: str
    ms: float
    operators: tuple[OperatorRun, ...]


def write_executions(executions: Sequence[Execution]) -> str:
    return json.dumps(
        [
            [e.plan, e.engine, e.reason, round(e.ms, 3), [_run_to_json(o) for o in e.operators]]
            for e in executions
        ]
    )


def read_executions(text: str | None) -> tuple[Execution, ...]:
    return tuple(
        Execution(plan, Engine(engine), reason, ms, tuple(OperatorRun(*o) for o in operators))
        for plan, engine, reason, ms, operators in json.loads(text or "[]")
    )


def _run_to_json(run: OperatorRun) -> list[object]:
    depth, title, rows_in, rows_out, ms, by_job = astuple(run)
    return [depth, title, rows_in, rows_out, ms if ms is None else round(ms, 3), *[True] * by_job]
