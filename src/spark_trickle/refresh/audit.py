"""The audit: compare a stream table with its query, computed again at the snapshot of its last refresh.

Spark is the judge: it runs the query as it is written. What it refuses, such as a recursion with UNION, or
answers otherwise than it should, is computed by the plan from nothing, by none of the rules for changes.

Spark may answer a query in more than one way, and all of these are right: the clock shows the moment of the
refresh, ties and unordered aggregates leave a choice, and floats are rounded in the order of their rows.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from spark_trickle.errors import QueryError, TransactionStateError, TrickleError
from spark_trickle.lake.catalog import states
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.lake.catalog.reports import read_refreshes
from spark_trickle.model.stream import Action, Frontier
from spark_trickle.model.table import Table
from spark_trickle.model.types import is_float
from spark_trickle.refresh.clock import Clock
from spark_trickle.refresh.full import run_in_full
from spark_trickle.refresh.inputs import Inputs
from spark_trickle.refresh.query_names import restore_known_names
from spark_trickle.refresh.refresh import node_tables, require_stream
from spark_trickle.refresh.rounding import (
    bound_rounding,
    render_beyond_rounding,
    render_near_pairs,
    render_without_pairs,
)
from spark_trickle.refresh.sessions import misses_function
from spark_trickle.spark.frames import Frame, Session
from spark_trickle.spark.run import run_sql
from spark_trickle.spark.session import in_time_zone, time_zone
from spark_trickle.sql.audit.any_order import find_loose_columns
from spark_trickle.sql.audit.membership import membership_is_value
from spark_trickle.sql.audit.perturb import count_sensitive, is_scale_free, perturb_query
from spark_trickle.sql.audit.ties import find_choice
from spark_trickle.sql.dialect.moments import CLOCKS, fix_moment
from spark_trickle.sql.lexer.words import split_words
from spark_trickle.txn.query import catalog_at, run_query, snapshot_by_id
from spark_trickle.txn.store import keep_result
from spark_trickle.txn.work import Work
from spark_trickle.txn.work_state import WorkState


def audit(work: Work, table: Table) -> Frame:
    """The rows that differ, and how often each is missing from the stream table or too much in it."""
    zone, session = require_stream(table).time_zone, work.place.session
    if zone in ("", time_zone(session)):
        return _compare_with_query(work, table)
    try:
        return _compare_with_query(replace(work, place=work.place.in_child(zone)), table)
    except QueryError as error:
        if not misses_function(error):
            raise
    # What its query calls is known only in the session of the user, and a zone holds for a whole session.
    text = f'the time zone of the session is "{zone}" during the audit of "{table.full_name}"'
    warnings.warn(f"{text}: its query calls functions of the session", stacklevel=2)
    with in_time_zone(session, zone):
        return _compare_with_query(work, table)


def _compare_with_query(work: Work, table: Table) -> Frame:
    then, moment = _rewind_to_refresh(work, table), _read_moment(work, table)
    why = _find_obstacle(table)
    if not why:
        try:
            # At once: some queries Spark refuses only when it runs them, a recursion even at some depth.
            return _hand_over(work, table, _compare_by_spark(work, then, table, moment))
        except TrickleError as refusal:
            if refusal.retryable or (misses_function(refusal) and work.place.child is not None):
                raise
            why = f"Spark cannot run its query: {refusal.message}"
    text = f'the plan of "{table.full_name}" was recomputed for the audit because {why}'
    warnings.warn(text, stacklevel=2)
    try:
        return _hand_over(
            work, table, _find_differences(work, table, _compute_by_plan(work, then, table, moment))
        )
    finally:
        then.discard()


def _hand_over(work: Work, table: Table, differing: Frame) -> Frame:
    return _store_differences(work, table, differing, work.place.session)


def _store_differences(work: Work, table: Table, differing: Frame, session: Session | None = None) -> Frame:
    """Computed now; under names that every file format takes."""
    numbered = differing.toDF(*_number_columns(table), "difference", "rows")
    kept = keep_result(work, table, numbered, session)
    return kept.toDF(*table.column_names, "difference", "rows")


def _find_obstacle(table: Table) -> str:
    """Why Spark is not asked; empty if it is."""
    stream = require_stream(table)
    if membership_is_value(stream.query):
        return "Spark returns false where x IN (SELECT …) is unknown"
    written = {w.text.lower() for w in split_words(stream.query)}
    if hidden := sorted(set(stream.moments) & CLOCKS - written):
        return f"a view reads the clock with {hidden[0]}()"
    return ""


def _read_moment(work: Work, table: Table) -> datetime | None:
    """What the clock showed when the rows were computed."""
    if not require_stream(table).moments:
        return None
    with open_reader(work.place.warehouse.engine) as connection:
        done = (
            p for p in read_refreshes(connection, table.id) if p.error is None and p.action != Action.NO_DATA
        )
        return next((p.started for p in done), None)


def _rewind_to_refresh(work: Work, table: Table) -> Work:
    """What the last refresh read."""
    with open_reader(work.place.warehouse.engine) as connection:
        frontier = states.read_state(connection, table.id).knows
    if frontier is None:
        raise TransactionStateError(
            f'the stream table "{table.full_name}" is not filled yet', "Refresh it first."
        )
    at = snapshot_by_id(work, frontier.tables)
    then = Work(work.place, WorkState(catalog_at(work, at)), at)
    for source in require_stream(table).sources:
        known = work.catalog.table_by_id(source.table_id)
        if known is not None and known.stream is not None:
            then.pin_table(known, frontier.streams)
    return restore_known_names(then, require_stream(table))


@dataclass(frozen=True)
class _Asked:
    """A stream table and its query, which Spark answers as of the last refresh."""

    work: Work
    then: Work
    table: Table
    query: str

    def answer_query(self, query: str = "") -> Frame:
        return run_query(self.then, query or self.query, schema=require_stream(self.table).home)

    @property
    def stored_rows(self) -> Frame:
        return self.work.rows(self.table).toDF(*_number_columns(self.table))

    @property
    def floats(self) -> list[str]:
        named = zip(_number_columns(self.table), self.table.columns, strict=True)
        return [name for name, c in named if is_float(c.type)]


def _compare_by_spark(work: Work, then: Work, table: Table, moment: datetime | None) -> Frame:
    query = require_stream(table).query
    asked = _Asked(work, then, table, query if moment is None else fix_moment(query, moment))
    wanted = _pick_nearest_rows(asked)
    differing = _find_differences(work, table, wanted)
    if not asked.floats or not count_sensitive(asked.query):
        return differing
    differing = _store_differences(work, table, differing)
    return differing if differing.isEmpty() else _drop_rounding_differences(asked, differing)


def _pick_nearest_rows(asked: _Asked) -> Frame:
    """The rows of the query; where it leaves Spark a choice, the one that is nearest to what is there."""
    columns, plain = _number_columns(asked.table), asked.answer_query()
    spark = asked.work.place.spark
    if (choice := find_choice(asked.query, plain.columns)) is not None:
        return run_sql(
            spark,
            choice.select_nearest(columns),
            rows=asked.answer_query(choice.query),
            found=asked.stored_rows,
        )
    if (loose := find_loose_columns(asked.query, columns)) is not None:
        rows = asked.answer_query(loose.query).toDF(*columns)
        return run_sql(spark, loose.select_nearest(columns, asked.floats), rows=rows, found=asked.stored_rows)
    return plain.toDF(*columns)


def _drop_rounding_differences(asked: _Asked, differing: Frame) -> Frame:
    """Without rows whose floats are off by no more than rounding may have moved them.

    The query is asked twice more, with numbers that are off in their last digits: by as much as rounding can
    add up to over so many rows.
    """
    columns, spark, plain = _number_columns(asked.table), asked.work.place.spark, asked.answer_query()
    sources = (asked.then.catalog.table_by_id(s.table_id) for s in require_stream(asked.table).sources)
    amount = bound_rounding(sum(asked.then.row_count(t) for t in sources if t is not None))
    types = [f.dataType for f in plain.schema.fields]
    usable = [n for n in range(count_sensitive(asked.query)) if _keeps_types(asked, n, amount, types)]
    if not usable:
        return differing
    a, b = (
        asked.answer_query(perturb_query(asked.query, usable, amount, seed)).toDF(*columns) for seed in (1, 2)
    )
    text = render_near_pairs(columns, asked.floats, amount if is_scale_free(asked.query) else 0.0)
    found = run_sql(spark, text, w=plain.toDF(*columns), f=asked.stored_rows, a=a, b=b)
    pairs = keep_result(asked.work, asked.table, found)
    return run_sql(spark, render_without_pairs(columns, asked.table), differing=differing, pairs=pairs)


def _keeps_types(asked: _Asked, call: int, amount: float, types: list[Any]) -> bool:
    """Sums of whole numbers and decimals are exact, and would be doubles if their arguments were."""
    try:
        fields = asked.answer_query(perturb_query(asked.query, [call], amount, 1)).schema.fields
    except TrickleError:
        return False
    return [f.dataType for f in fields] == types


def _compute_by_plan(work: Work, then: Work, table: Table, moment: datetime | None) -> Frame:
    """All nodes from nothing, beside their tables."""
    tables = node_tables(work, table)
    scratch = then.begin_scratch(empty=tables.values())
    now = Frontier(then.base.id, then.base.id)
    run_in_full(Inputs(scratch, require_stream(table), tables, now, moment=moment), Clock())
    return scratch.rows(table).toDF(*_number_columns(table))


def _number_columns(table: Table) -> list[str]:
    return [f"c{n}" for n, _ in enumerate(table.columns, start=1)]


def _find_differences(work: Work, table: Table, wanted: Frame) -> Frame:
    columns = ", ".join(_number_columns(table))
    text = (
        f"SELECT {columns}, IF(sum(_w) > 0, 'extra', 'missing') AS difference, abs(sum(_w)) AS rows FROM ("
        f"SELECT {columns}, 1 AS _w FROM {{found}} UNION ALL SELECT {columns}, -1 AS _w FROM {{wanted}}) "
        f"GROUP BY {columns} HAVING sum(_w) <> 0"
    )
    found = work.rows(table).toDF(*_number_columns(table))
    differing = run_sql(work.place.spark, text, found=found, wanted=wanted)
    if any(is_float(c.type) for c in table.columns):
        settled = keep_result(work, table, differing)
        differing = run_sql(
            work.place.spark, render_beyond_rounding(_number_columns(table), table), differing=settled
        )
    return differing.toDF(*table.column_names, "difference", "rows")
