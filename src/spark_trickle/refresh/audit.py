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
from spark_trickle.refresh.query_names import by_known_names
from spark_trickle.refresh.refresh import definition, node_tables
from spark_trickle.refresh.rounding import beyond_rounding, near_pairs, rounding_over, without_pairs
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


def audit(work: Work, table: Table) -> Frame:
    """The rows that differ, and how often each is missing from the stream table or too much in it."""
    zone, session = definition(table).time_zone, work.place.session
    if zone in ("", time_zone(session)):
        return _judged(work, table)
    try:
        return _judged(replace(work, place=work.place.in_child(zone)), table)
    except QueryError as error:
        if not misses_function(error):
            raise
    with in_time_zone(session, zone):  # what its query calls is known only there
        return _judged(work, table)


def _judged(work: Work, table: Table) -> Frame:
    then, moment = _as_it_was(work, table), _moment(work, table)
    why = _obstacle(table)
    if not why:
        try:
            # At once: some queries Spark refuses only when it runs them, a recursion even at some depth.
            return _hand_over(work, table, _judged_by_spark(work, then, table, moment))
        except TrickleError as refusal:
            if refusal.retryable or (misses_function(refusal) and work.place.child is not None):
                raise
            why = f"Spark cannot run its query: {refusal.message}"
    text = f'the plan of "{table.full_name}" was recomputed for the audit because {why}'
    warnings.warn(text, stacklevel=2)
    try:
        return _hand_over(work, table, _differences(work, table, _by_plan(work, then, table, moment)))
    finally:
        then.discard()


def _hand_over(work: Work, table: Table, differing: Frame) -> Frame:
    return _keep(work, table, differing, work.place.session)


def _keep(work: Work, table: Table, differing: Frame, session: Session | None = None) -> Frame:
    """Computed now; under names that every file format takes."""
    numbered = differing.toDF(*_numbered(table), "difference", "rows")
    kept = keep_result(work, table, numbered, session)
    return kept.toDF(*table.column_names, "difference", "rows")


def _obstacle(table: Table) -> str:
    """Why Spark is not asked; empty if it is."""
    stream = definition(table)
    if membership_is_value(stream.query):
        return "Spark returns false where x IN (SELECT …) is unknown"
    written = {w.text.lower() for w in split_words(stream.query)}
    if hidden := sorted(set(stream.moments) & CLOCKS - written):
        return f"a view reads the clock with {hidden[0]}()"
    return ""


def _moment(work: Work, table: Table) -> datetime | None:
    """What the clock showed when the rows were computed."""
    if not definition(table).moments:
        return None
    with open_reader(work.place.warehouse.engine) as connection:
        done = (
            p for p in read_refreshes(connection, table.id) if p.error is None and p.action != Action.NO_DATA
        )
        return next((p.started for p in done), None)


def _as_it_was(work: Work, table: Table) -> Work:
    """What the last refresh read."""
    with open_reader(work.place.warehouse.engine) as connection:
        frontier = states.read_state(connection, table.id).knows
    if frontier is None:
        raise TransactionStateError(
            f'the stream table "{table.full_name}" is not filled yet', "Refresh it first."
        )
    at = snapshot_by_id(work, frontier.tables)
    then = Work(work.place, catalog_at(work, at), at)
    for source in definition(table).sources:
        known = work.catalog.table_by_id(source.table_id)
        if known is not None and known.stream is not None:
            then.see(known, frontier.streams)
    return by_known_names(then, definition(table))


@dataclass(frozen=True)
class _Asked:
    """A stream table and its query, which Spark answers as of the last refresh."""

    work: Work
    then: Work
    table: Table
    query: str

    def rows(self, query: str = "") -> Frame:
        return run_query(self.then, query or self.query, schema=definition(self.table).home)

    @property
    def found(self) -> Frame:
        return self.work.rows(self.table).toDF(*_numbered(self.table))

    @property
    def floats(self) -> list[str]:
        named = zip(_numbered(self.table), self.table.columns, strict=True)
        return [name for name, c in named if is_float(c.type)]


def _judged_by_spark(work: Work, then: Work, table: Table, moment: datetime | None) -> Frame:
    query = definition(table).query
    asked = _Asked(work, then, table, query if moment is None else fix_moment(query, moment))
    wanted = _nearest(asked)
    differing = _differences(work, table, wanted)
    if not asked.floats or not count_sensitive(asked.query):
        return differing
    differing = _keep(work, table, differing)
    return differing if differing.isEmpty() else _beyond_cancellation(asked, differing)


def _nearest(asked: _Asked) -> Frame:
    """The rows of the query; where it leaves Spark a choice, the one that is nearest to what is there."""
    columns, plain = _numbered(asked.table), asked.rows()
    spark = asked.work.place.spark
    if (choice := find_choice(asked.query, plain.columns)) is not None:
        return run_sql(
            spark, choice.select_nearest(columns), rows=asked.rows(choice.query), found=asked.found
        )
    if (loose := find_loose_columns(asked.query, columns)) is not None:
        rows = asked.rows(loose.query).toDF(*columns)
        return run_sql(spark, loose.select_nearest(columns, asked.floats), rows=rows, found=asked.found)
    return plain.toDF(*columns)


def _beyond_cancellation(asked: _Asked, differing: Frame) -> Frame:
    """Without rows whose floats are off by no more than rounding may have moved them.

    The query is asked twice more, with numbers that are off in their last digits: by as much as rounding can
    add up to over so many rows.
    """
    columns, spark, plain = _numbered(asked.table), asked.work.place.spark, asked.rows()
    sources = (asked.then.catalog.table_by_id(s.table_id) for s in definition(asked.table).sources)
    amount = rounding_over(sum(asked.then.row_count(t) for t in sources if t is not None))
    types = [f.dataType for f in plain.schema.fields]
    usable = [n for n in range(count_sensitive(asked.query)) if _keeps_types(asked, n, amount, types)]
    if not usable:
        return differing
    a, b = (asked.rows(perturb_query(asked.query, usable, amount, seed)).toDF(*columns) for seed in (1, 2))
    text = near_pairs(columns, asked.floats, amount if is_scale_free(asked.query) else 0.0)
    found = run_sql(spark, text, w=plain.toDF(*columns), f=asked.found, a=a, b=b)
    pairs = keep_result(asked.work, asked.table, found)
    return run_sql(spark, without_pairs(columns, asked.table), differing=differing, pairs=pairs)


def _keeps_types(asked: _Asked, call: int, amount: float, types: list[Any]) -> bool:
    """Sums of whole numbers and decimals are exact, and would be doubles if their arguments were."""
    try:
        fields = asked.rows(perturb_query(asked.query, [call], amount, 1)).schema.fields
    except TrickleError:
        return False
    return [f.dataType for f in fields] == types


def _by_plan(work: Work, then: Work, table: Table, moment: datetime | None) -> Frame:
    """All nodes from nothing, beside their tables."""
    tables = node_tables(work, table)
    scratch = then.scratch(empty=tables.values())
    now = Frontier(then.base.id, then.base.id)
    run_in_full(Inputs(scratch, definition(table), tables, now, moment=moment), Clock())
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
        settled = keep_result(work, table, differing)
        differing = run_sql(work.place.spark, beyond_rounding(_numbered(table), table), differing=settled)
    return differing.toDF(*table.column_names, "difference", "rows")
