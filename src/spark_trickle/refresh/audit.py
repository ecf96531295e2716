"""A stream table against its own query, computed anew at the snapshot that it claims to be exact at.

Spark is the judge: it runs the query as it is written. What it refuses, such as a recursion with UNION, or
answers otherwise than it should, is computed by the plan from nothing, by none of the rules for changes.
"""

from __future__ import annotations

import warnings
from contextlib import nullcontext

from spark_trickle.dml.query import catalog_at, run_query, snapshot_by_id
from spark_trickle.dml.work import Work
from spark_trickle.errors import TransactionStateError, TrickleError
from spark_trickle.lake import stream as states
from spark_trickle.lake.engine import reading
from spark_trickle.model.stream import Frontier
from spark_trickle.model.table import Table
from spark_trickle.model.types import is_float
from spark_trickle.refresh.in_full import run_in_full
from spark_trickle.refresh.inputs import Inputs
from spark_trickle.refresh.known_names import by_known_names
from spark_trickle.refresh.node import Clock
from spark_trickle.refresh.run import definition, node_tables
from spark_trickle.spark.frames import Frame
from spark_trickle.spark.run import computed, run_sql
from spark_trickle.spark.session import in_time_zone
from spark_trickle.sql.membership import membership_is_value
from spark_trickle.sql.ties import choice_of

_ROUNDING = "1e-9D"
_INFINITY = "double('Infinity')"


def audit(work: Work, table: Table) -> Frame:
    """The rows that differ, and how often each is missing from the stream table or too much in it."""
    zone = definition(table).time_zone
    with in_time_zone(work.place.spark, zone) if zone else nullcontext():
        return _judged(work, table)


def _judged(work: Work, table: Table) -> Frame:
    then = _as_it_was(work, table)
    why = "Spark says false where x IN (SELECT …) is unknown"
    if not membership_is_value(definition(table).query):
        try:
            # At once: some queries Spark refuses only when it runs them, a recursion even at some depth.
            return computed(_differences(work, table, _by_spark(work, then, table)))
        except TrickleError as refusal:
            if refusal.retryable:
                raise
            why = f"Spark cannot run its query: {refusal.message}"
    text = f'the plan of "{table.full_name}" was computed anew to judge it, since {why}'
    warnings.warn(text, stacklevel=2)
    try:
        return computed(_differences(work, table, _by_plan(work, then, table)))
    finally:
        then.discard()


def _as_it_was(work: Work, table: Table) -> Work:
    """What the last refresh read."""
    with reading(work.place.warehouse.engine) as connection:
        frontier = states.state(connection, table.id).knows
    if frontier is None:
        raise TransactionStateError(
            f'the stream table "{table.full_name}" was never filled', "Refresh it first."
        )
    at = snapshot_by_id(work, frontier.tables)
    then = Work(work.place, catalog_at(work, at), at)
    for source in definition(table).sources:
        known = work.catalog.table_by_id(source.table_id)
        if known is not None and known.stream is not None:
            then.see(known, frontier.streams)
    return by_known_names(then, definition(table))


def _by_spark(work: Work, then: Work, table: Table) -> Frame:
    """The rows of the query; where ties leave it a choice, the one that is nearest to what is there."""
    stream, columns = definition(table), _numbered(table)
    asked = run_query(then, stream.query, schema=stream.home)
    choice = choice_of(stream.query, asked.columns)
    if choice is None:
        return asked.toDF(*columns)
    rows = run_query(then, choice.query, schema=stream.home)
    found = work.rows(table).toDF(*columns)
    return run_sql(work.place.spark, choice.nearest(columns), rows=rows, found=found)


def _by_plan(work: Work, then: Work, table: Table) -> Frame:
    """All nodes from nothing, beside their tables."""
    tables = node_tables(work, table)
    scratch = then.scratch(empty=tables.values())
    now = Frontier(then.base.id, then.base.id)
    run_in_full(Inputs(scratch, definition(table), tables, now), Clock())
    return scratch.rows(table).toDF(*_numbered(table))


def _numbered(table: Table) -> list[str]:
    return [f"c{n}" for n, _ in enumerate(table.columns, start=1)]


def _differences(work: Work, table: Table, wanted: Frame) -> Frame:
    columns = ", ".join(_numbered(table))
    text = (
        f"SELECT {columns}, IF(sum(_w) > 0, 'extra', 'missing') AS difference, abs(sum(_w)) AS rows FROM ("
        f"SELECT {columns}, 1 AS _w FROM {{found}} UNION ALL SELECT {columns}, -1 AS _w FROM {{wanted}}) "
        f"GROUP BY {columns} HAVING sum(_w) <> 0"
    )
    found = work.rows(table).toDF(*_numbered(table))
    differing = run_sql(work.place.spark, text, found=found, wanted=wanted)
    if any(is_float(c.type) for c in table.columns):
        differing = run_sql(work.place.spark, _beyond_rounding(table), differing=computed(differing))
    return differing.toDF(*table.column_names, "difference", "rows")


def _beyond_rounding(table: Table) -> str:
    """Without rows that differ from one on the other side just in how floats were rounded.

    The same rows in another order have another sum or deviation, also in plain Spark.
    """
    named = list(zip(_numbered(table), table.columns, strict=True))
    floats = [name for name, c in named if is_float(c.type)]
    exact = [name for name, c in named if not is_float(c.type)]
    groups = ", ".join([*exact, "difference"])
    placed = (
        f"(SELECT *, row_number() OVER (PARTITION BY {groups} ORDER BY {', '.join(floats)}) AS place "
        "FROM {differing})"
    )
    pairs = ["one.place = other.place", "one.rows = other.rows", "one.difference <> other.difference"]
    pairs += [f"one.{n} <=> other.{n}" for n in exact]
    pairs += [
        f"(one.{n} <=> other.{n} OR (abs(one.{n}) < {_INFINITY} AND abs(other.{n}) < {_INFINITY} "
        f"AND abs(one.{n} - other.{n}) <= {_ROUNDING} * abs(one.{n})))"
        for n in floats
    ]
    columns = ", ".join(f"one.{n}" for n, _ in named)
    return (
        f"SELECT {columns}, one.difference, one.rows FROM {placed} AS one "
        f"LEFT ANTI JOIN {placed} AS other ON {' AND '.join(pairs)}"
    )
