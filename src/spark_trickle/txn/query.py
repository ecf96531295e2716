"""Any query over our tables -> a DataFrame; the text stays the user's, only table names are filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from spark_trickle.errors import (
    ColumnNotFoundError,
    SqlSyntaxError,
    TableNotFoundError,
    TrickleError,
    UnsupportedError,
    shorten_text,
)
from spark_trickle.lake.catalog import read
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.model.catalog import Catalog, Snapshot
from spark_trickle.model.numbers import read_whole_number
from spark_trickle.model.table import Relation, Table, View, display_names
from spark_trickle.spark.frames import Frame
from spark_trickle.spark.run import collect, plan_long_query, run_sql
from spark_trickle.sql.names.references import (
    ChangesBetween,
    Reference,
    TimestampAsOf,
    VersionAsOf,
    find_references,
)
from spark_trickle.sql.names.replace_references import replace_references
from spark_trickle.txn import functions
from spark_trickle.txn.work import Work, now

_DEEPEST_VIEW = 50
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MICROS, _LAST_MICROS = (
    (datetime(year, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1) for year in (1, 9999)
)
_TARGET = "_trickle_target_rows"


@dataclass(frozen=True)
class StatementTarget:
    """The table that a statement changes, and the rows of it that the statement is to choose from."""

    table: Table
    rows: Frame


def run_query(
    work: Work,
    sql: str,
    depth: int = 0,
    schema: str | None = None,
    given: Mapping[str, Frame] | None = None,
    target: StatementTarget | None = None,
) -> Frame:
    """All tables at the snapshot of the transaction, unless the query names another.

    `{name}` in the text stands for a frame that is given. Where a statement names its target besides changing
    it, it looks at all of its rows.
    """
    return plan_long_query(analyze_query(work, sql, depth, schema, given, target), sql)


def analyze_query(
    work: Work,
    sql: str,
    depth: int = 0,
    schema: str | None = None,
    given: Mapping[str, Frame] | None = None,
    target: StatementTarget | None = None,
) -> Frame:
    """The same of a query whose rows nobody will ask for: Spark only has to understand it."""
    frames: dict[str, Frame] = dict(given or {})
    known: dict[str, str] = {}
    home, names_of_target = schema or work.place.schema, 0

    def fill_in(reference: Reference) -> str | None:
        nonlocal names_of_target
        key = repr((reference.parts, reference.at, reference.arguments))
        if target is not None and _is_target(work, reference, home, target.table):
            names_of_target += 1
            if names_of_target > 1:
                work.reads.note_table(target.table.id, by_statement=True)
            key = _TARGET
            frames[_TARGET] = target.rows
            known[_TARGET] = _TARGET
        if key not in known:
            frame = _read_reference(work, reference, depth, home)
            if frame is None:
                return None
            known[key] = f"_trickle_{len(frames)}"
            frames[known[key]] = frame
        return f"{{{known[key]}}}"

    text = replace_references(sql, fill_in)
    available = display_names(work.catalog.relations.values(), home)
    try:
        return run_sql(work.place.spark, text, available=available, **frames)
    except TableNotFoundError as error:
        raise _explain_missing_table(work, error, home) from None


def _explain_missing_table(work: Work, error: TableNotFoundError, home: str) -> TrickleError:
    """Spark misses a table that exists only in a statement that we pass on to it as it is."""
    if work.catalog.find(tuple(error.name.split(".")), home) is None:
        return error
    return UnsupportedError(
        f'this kind of statement on "{error.name}"',
        "Use one of the statements that the reference lists; Spark runs all others, but it does not see the "
        "tables of the warehouse.",
    )


def _is_target(work: Work, reference: Reference, home: str, table: Table) -> bool:
    if reference.is_function or reference.at is not None:
        return False
    found = work.catalog.find(reference.parts, home)
    return isinstance(found, Table) and found.id == table.id


def count_referenced_rows(work: Work, sql: str) -> int | None:
    """How many rows the tables of a query hold together; None if it reads anything else."""
    total = 0
    for reference in find_references(sql):
        relation = work.catalog.find(reference.parts, work.place.schema)
        if (
            reference.is_function
            or reference.at is not None
            or relation is None
            or isinstance(relation, View)
            or (work.effects is not None and relation.stream is not None)
        ):
            return None
        total += work.row_count(relation)
    return total


def _read_reference(work: Work, reference: Reference, depth: int, schema: str) -> Frame | None:
    if reference.is_function:
        work.reads.note_all_tables()
        return functions.table_function(work, reference.parts[1], reference.arguments or ())
    match reference.at:
        case None:
            relation = work.catalog.find(reference.parts, schema)
            return None if relation is None else relation_frame(work, relation, None, depth)
        case VersionAsOf(value):
            return _read_reference_at(work, reference, snapshot_of_version(work, value), depth, schema)
        case TimestampAsOf(value):
            return _read_reference_at(work, reference, _snapshot_of_time(work, value), depth, schema)
        case ChangesBetween():
            return _read_changes(work, reference, reference.at, schema)


def relation_frame(work: Work, relation: Relation, at: Snapshot | None = None, depth: int = 0) -> Frame:
    """The rows of a table or view."""
    if not isinstance(relation, View):
        if relation.stream is not None:
            warehouse = work.place.warehouse
            warehouse.read_counter.note(warehouse.engine, relation.id, now())
        return work.rows_for_query(relation) if at is None else work.rows_at(relation, at.id)
    if at is not None:
        raise UnsupportedError(
            f'VERSION AS OF on the view "{relation.name}"', "Put VERSION AS OF on the tables inside the view."
        )
    if depth > _DEEPEST_VIEW:
        raise UnsupportedError(
            f"nesting views deeper than {_DEEPEST_VIEW}", "Check that no view contains itself."
        )
    inside = work.with_catalog(work.catalog.enter_view(relation))
    frame = analyze_query(inside, relation.sql, depth + 1, relation.home)
    return _columns_of_view(frame, relation)


def _columns_of_view(frame: Frame, view: View) -> Frame:
    """The columns that the view was made with, by name: a * in its query may mean others by now."""
    found = [c.lower() for c in frame.columns]
    positions = []
    for n, name in enumerate(view.source_columns):
        same = [i for i, c in enumerate(found) if c == name.lower()]
        if len(same) != 1 and found != [c.lower() for c in view.source_columns]:
            raise ColumnNotFoundError(name, tuple(frame.columns))
        positions.append(same[0] if len(same) == 1 else n)
    numbered = frame.toDF(*[f"_{i}" for i in range(len(found))])
    return numbered.select(*[f"_{i}" for i in positions]).toDF(*view.column_names)


def _read_reference_at(work: Work, reference: Reference, at: Snapshot, depth: int, schema: str) -> Frame:
    catalog = catalog_at(work, at)
    relation = catalog.find(reference.parts, schema)
    if relation is None:
        available = display_names(catalog.relations.values(), schema)
        raise TableNotFoundError(".".join(reference.parts), available, snapshot=at.id)
    return relation_frame(work, relation, at, depth)


def catalog_at(work: Work, at: Snapshot) -> Catalog:
    with open_reader(work.place.warehouse.engine) as connection:
        return read.read_catalog(connection, at)


def snapshot_of_version(work: Work, text: str) -> Snapshot:
    return snapshot_by_id(work, version_number(text))


def snapshot_by_id(work: Work, snapshot_id: int) -> Snapshot:
    with open_reader(work.place.warehouse.engine) as connection:
        return read.read_snapshot(connection, snapshot_id)


def version_number(text: str) -> int:
    number = read_whole_number(text.strip().strip("'\""))
    if number is None:
        raise SqlSyntaxError(
            f"{shorten_text(text)} is not a snapshot", advice="Write a number, for example VERSION AS OF 3."
        )
    return number


def _snapshot_of_time(work: Work, expression: str, strictly: bool = False) -> Snapshot:
    moment = _parse_instant(work, expression)
    with open_reader(work.place.warehouse.engine) as connection:
        return read.read_snapshot_before(connection, moment, strictly)


def _parse_instant(work: Work, expression: str) -> datetime:
    """Spark's years go further than those of a calendar here; beyond its ends there are no snapshots."""
    frame = run_sql(work.place.spark, f"SELECT unix_micros(CAST({expression} AS TIMESTAMP)) AS moment")
    micros = collect(frame).column(0)[0].as_py()
    if micros is None:
        raise SqlSyntaxError(
            f"{shorten_text(expression)} is not a timestamp",
            advice="Write TIMESTAMP AS OF '2026-01-31 12:00:00'.",
        )
    return _EPOCH + timedelta(microseconds=max(_FIRST_MICROS, min(micros, _LAST_MICROS)))


def _read_changes(work: Work, reference: Reference, between: ChangesBetween, schema: str) -> Frame:
    if work.catalog.find(reference.parts, schema) is None:
        raise TableNotFoundError(".".join(reference.parts), display_names(work.catalog.tables(), schema))
    if between.by_time:
        start = _snapshot_of_time(work, between.start, strictly=between.start_inclusive).id
        end = work.base.id
        if between.end:
            end = _snapshot_of_time(work, between.end, strictly=not between.end_inclusive).id
    else:
        start = version_number(between.start) - (1 if between.start_inclusive else 0)
        end = version_number(between.end) if between.end else work.base.id
        end -= 0 if between.end_inclusive else 1
    return functions.read_changes(work, work.catalog.table(reference.parts, schema), start, end)
