"""What is known of a plan before it runs -> where it runs, and why: a value, decided once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_trickle.algebra.operators import Operator
from spark_trickle.arrow.evaluate import Evaluated, Reader, rehearse_plan
from spark_trickle.arrow.unsupported import Refusal
from spark_trickle.model.execution import Engine
from spark_trickle.settings import Settings


@dataclass(frozen=True)
class Placement:
    """Where a plan is computed; `fallback` is where it goes on if that turns out to be impossible."""

    engine: Engine
    reason: str
    fallback: Placement | None = None

    @property
    def engines(self) -> tuple[Engine, ...]:
        """The engine, then those that take over."""
        return (self.engine, *(self.fallback.engines if self.fallback is not None else ()))

    def fall_back(self, reason: str) -> Placement:
        """The next engine, and why this one did not do."""
        if self.fallback is None:
            raise AssertionError(reason)
        return replace(self.fallback, reason=f"{reason}; {self.fallback.reason}")


@dataclass(frozen=True)
class Load:
    """How many rows a plan reads, and how many may come of it."""

    few_changed: bool  # so few rows changed that one task computes what follows from them
    few_in_all: bool  # all sources together are so few rows that the driver can hold what comes of them
    fits_driver: bool  # Arrow can hold the types of the table
    replaces: bool = False  # all rows are computed, to take the place of those that are stored
    reads_many: bool = False  # of tables that are not looked up by keys


def try_at_driver(plan: Operator, reader: Reader, load: Load, settings: Settings) -> Evaluated | Refusal:
    """What the driver would do with a plan, over no rows, or why it cannot.

    Which files belong to a table is looked up as far as the plan gets, so a plan that is refused early costs
    no statements.
    """
    if obstacle := _find_obstacle(load, settings):
        return Refusal(obstacle)
    return rehearse_plan(reader, plan)


def place_plan(rehearsal: Evaluated | Refusal, load: Load) -> Placement:
    """The driver if it can, since it needs no job; otherwise as little of Spark as will do."""
    by_spark = _place_on_spark(load)
    if isinstance(rehearsal, Refusal):
        return replace(by_spark, reason=f"{rehearsal.reason}; {by_spark.reason}")
    looks_up = any(cost.by_job for cost in rehearsal.costs.values())
    return Placement(Engine.DRIVER, _LOOKED_UP if looks_up else _WITHOUT_JOB, by_spark)


_WITHOUT_JOB = "few rows, which need no Spark job"
_LOOKED_UP = "few rows; a small Spark job fetches what they match in a large table, unless that is in memory"


def _find_obstacle(load: Load, settings: Settings) -> str | None:
    if not settings.keeps_small_changes:
        return "small_changes = spark"
    if load.replaces or load.reads_many:
        return "all rows are computed"
    return None if load.fits_driver else "Arrow cannot hold a column of the result"


def _place_on_spark(load: Load) -> Placement:
    many = Placement(Engine.EXECUTORS, "there may be many rows")
    if load.replaces:
        return many
    if load.few_changed:
        engine = Engine.ONE_TASK if load.fits_driver else Engine.STORING_TASK
        return Placement(engine, "few rows changed", many)
    if load.few_in_all and load.fits_driver:
        return Placement(Engine.COLLECTED, "all sources together are few rows", many)
    return many
