"""Captured tables -> all that a sync or a question needs to know of them, in one or two statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from psycopg import sql

from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.discover import SourceTable, compose_descriptions, read_descriptions
from spark_trickle.sources.postgres.install import Installed, captures_query, read_captures
from spark_trickle.sources.postgres.moment import Moment, ServerSnapshot, parse_lsn
from spark_trickle.sources.postgres.publication import compose_published, read_published
from spark_trickle.sources.postgres.run import Statement, read_rows, rows_in_groups
from spark_trickle.sources.postgres.slot import Asked, SlotState, read_slot, slot_query
from spark_trickle.sources.postgres.surroundings import (
    Rows,
    Surroundings,
    compose_surroundings,
    read_surroundings,
)

_BUFFER = "changes_"
_NEVER: Mapping[int, ServerSnapshot] = {}


@dataclass(frozen=True)
class Loss:
    """A reason for which changes could not be captured, how often, and when for the last time."""

    reason: str
    times: int
    last: str


@dataclass(frozen=True)
class Survey:
    """What a source says at one moment; mappings are by the ids of its tables."""

    asked: Asked
    moment: Moment
    tables: Mapping[int, SourceTable]
    around: Mapping[int, Surroundings]
    captures: Mapping[int, Installed]
    sizes: Mapping[int, int]  # of buffers, in bytes
    alive: frozenset[tuple[int, str]]
    unread: frozenset[int]  # buffers that hold something which was not read
    lost: Mapping[int, str]  # why changes since the last reading are not in a buffer
    counts: Mapping[int, int] = field(default_factory=dict)
    losses: Mapping[int, Sequence[Loss]] = field(default_factory=dict)
    subscribed: frozenset[int] = frozenset()
    tells_commits: bool = False  # the server remembers when transactions committed

    def find_gap(self, oid: int) -> str | None:
        """Why a capture may have missed changes of a table that exists."""
        capture = self.captures[oid]
        return capture.find_gap(self.tables[oid], self.around[oid], alive=(oid, capture.token) in self.alive)

    def find_loss(self, oid: int, token: str, since: ServerSnapshot) -> str | None:
        """Why a buffer may not hold all that changed since a reading."""
        capture = self.captures.get(oid)
        if capture is None or capture.token != token:
            return "its triggers were removed, or its buffer was created again"
        if reason := self.find_gap(oid):
            return reason
        if capture.unlogged and (oid, token) not in self.alive:
            return "the server crashed, and the buffer is unlogged"
        if self.moment.snapshot.high < since.high:
            return "the server was restored to an earlier state"
        return self.lost.get(oid)


@dataclass(frozen=True)
class LogSurvey:
    """What a source says at one moment of tables that are read from its log."""

    tables: Mapping[int, SourceTable]
    around: Mapping[int, Surroundings]
    published: Mapping[int, str]
    slot: SlotState | None


def survey_log(connection: Connection, slot: str, publication: str, oids: Sequence[int]) -> LogSurvey:
    tables, around, (shown, of_slot) = rows_in_groups(
        connection,
        compose_descriptions(oids),
        compose_surroundings(oids),
        [compose_published(publication), slot_query(slot)],
    )
    return LogSurvey(
        {t.oid: t for t in read_descriptions(*tables)},
        read_surroundings(oids, around),
        read_published(publication, shown),
        read_slot(slot, of_slot),
    )


def survey_captures(
    connection: Connection,
    schema: str,
    tables: Iterable[int] = (),
    since: Mapping[int, ServerSnapshot] = _NEVER,
    count_upto: int = 0,
) -> Survey:
    """Look at all captures of a schema, at some tables more, and at what was not read since some moments.

    With `count_upto`, the rows of buffers are counted up to that number, and losses are listed.
    """
    relations = dict(
        read_rows(connection, _RELATIONS.format(sql.Literal(sql.Identifier(schema).as_string(None))))
    )
    sizes = {int(n.removeprefix(_BUFFER)): size for n, size in relations.items() if n.startswith(_BUFFER)}
    oids = sorted({*tables, *since, *sizes})
    has_books = {"captures", "losses", "alive"} <= relations.keys()
    read = {oid: snapshot for oid, snapshot in since.items() if oid in sizes}
    moment, described, around, captured, counted = rows_in_groups(
        connection,
        [_MOMENT],
        compose_descriptions(oids),
        compose_surroundings(oids, schema),
        _compose_captured(schema, read) if has_books else [_NOTHING] * 4,
        _compose_counts(schema, sizes, count_upto) if has_books and count_upto else [_NOTHING] * 3,
    )
    clock, snapshot, lsn, tells_commits = moment[0][0]
    captures, alive, unread, lost = captured
    counts, losses, subscribed = counted
    return Survey(
        Asked(datetime.fromisoformat(clock), snapshot),
        Moment(ServerSnapshot.parse(snapshot), parse_lsn(lsn)),
        {t.oid: t for t in read_descriptions(*described)},
        read_surroundings(oids, around),
        read_captures(schema, captures),
        sizes,
        frozenset((oid, token) for oid, token in alive),
        frozenset(oid for (oid,) in unread),
        dict(lost),
        dict(counts),
        _group_losses(losses),
        frozenset(oid for (oid,) in subscribed),
        tells_commits,
    )


def first_commit(connection: Connection, schema: str, since: Mapping[int, ServerSnapshot]) -> datetime | None:
    """When the first transaction committed of which rows wait in some buffers, if the server tells that."""
    queries = [_COMMITTED.format(_name_buffer(schema, oid), unread_rows(seen)) for oid, seen in since.items()]
    return min(
        (at for (at,) in read_rows(connection, _unite_queries(queries)) if at is not None), default=None
    )


def count_rows(connection: Connection, oid: int, schema: str, most: int) -> int:
    """The rows of one buffer, as far as `most`."""
    ((_, count),) = read_rows(connection, _COUNT.format(oid, _name_buffer(schema, oid), most))
    return int(count)


def unread_rows(since: ServerSnapshot) -> Statement:
    """A condition on rows `b` of a buffer; its first half is cheap and settles most of them."""
    return sql.SQL(
        "b.xid >= {low}::text::xid8 AND NOT pg_visible_in_snapshot(b.xid, {since}::pg_snapshot)"
    ).format(low=str(since.low), since=str(since))


def _compose_captured(schema: str, since: Mapping[int, ServerSnapshot]) -> list[Statement]:
    alive, losses = sql.Identifier(schema, "alive"), sql.Identifier(schema, "losses")
    return [
        captures_query(schema),
        sql.SQL("SELECT source::int8, token::text FROM {}").format(alive),
        _unite_queries(
            sql.SQL("SELECT {oid}::int8 WHERE EXISTS (SELECT FROM {buffer} AS b WHERE {unread})").format(
                oid=oid, buffer=_name_buffer(schema, oid), unread=unread_rows(snapshot)
            )
            for oid, snapshot in since.items()
        ),
        _unite_queries(
            sql.SQL(
                "(SELECT source::int8, reason FROM {losses} AS b "
                "WHERE source = {oid} AND {unread} ORDER BY at LIMIT 1)"
            ).format(oid=oid, losses=losses, unread=unread_rows(snapshot))
            for oid, snapshot in since.items()
        ),
    ]


def _compose_counts(schema: str, oids: Iterable[int], most: int) -> list[Statement]:
    return [
        _unite_queries(_COUNT.format(oid, _name_buffer(schema, oid), most) for oid in oids),
        _LOSSES.format(sql.Identifier(schema, "losses")),
        _SUBSCRIBED,
    ]


def _unite_queries(queries: Iterable[Statement]) -> Statement:
    given = list(queries)
    return sql.SQL(" UNION ALL ").join(given) if given else _NOTHING


def _group_losses(found: Rows) -> dict[int, list[Loss]]:
    losses: dict[int, list[Loss]] = {}
    for oid, *loss in found:
        losses.setdefault(oid, []).append(Loss(*loss))
    return losses


def _name_buffer(schema: str, oid: int) -> sql.Identifier:
    return sql.Identifier(schema, f"{_BUFFER}{oid}")


_NOTHING = sql.SQL("SELECT WHERE false")

_COUNT = sql.SQL("SELECT {}::int8, count(*) FROM (SELECT FROM {} LIMIT {}) AS b")

_RELATIONS = sql.SQL("""
    SELECT relname::text, coalesce(pg_total_relation_size(oid), 0) FROM pg_class
    WHERE relnamespace = to_regnamespace({}) AND relkind = 'r'
        AND (relname IN ('captures', 'losses', 'alive') OR relname ~ '^changes_[0-9]+$')
""")

# The log position comes after the snapshot, so that it is not too early.
_MOMENT = sql.SQL("""
    SELECT clock_timestamp(), pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text,
        current_setting('track_commit_timestamp')::boolean
""")

_COMMITTED = sql.SQL("""
    SELECT min(pg_xact_commit_timestamp(b.xid::xid)) FROM (SELECT DISTINCT xid FROM {} AS b WHERE {}) AS b
""")

_LOSSES = sql.SQL("SELECT source::int8, reason, count(*), max(at)::text FROM {} GROUP BY source, reason")

_SUBSCRIBED = sql.SQL("SELECT DISTINCT srrelid::int8 FROM pg_subscription_rel")
