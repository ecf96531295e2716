"""A slot -> the committed changes after a position, table by table, as weighted rows.

Peek, commit them in the warehouse together with `end_lsn`, and only then `advance_slot`: a crash anywhere in
between repeats the peek, and transactions before the committed position are passed over.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from spark_trickle.errors import ResyncNeededError, SettingError
from spark_trickle.model.arrow import python_values
from spark_trickle.model.table import WEIGHT
from spark_trickle.sources.postgres.assemble import Followed, TableLog, assemble_messages
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.discover import SourceTable
from spark_trickle.sources.postgres.moment import show_lsn
from spark_trickle.sources.postgres.netting import Key, NetRows, net_by_key, net_of_whole_rows
from spark_trickle.sources.postgres.publication import require_published
from spark_trickle.sources.postgres.run import stream_rows
from spark_trickle.sources.postgres.slot import LogEnd, find_log_end, require_slot
from spark_trickle.sources.postgres.tuples import locate_values
from spark_trickle.sources.postgres.values import from_text, parse_weights, to_table

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class PartialRows:
    """New rows with weight 1 of which the log did not repeat all values.

    The columns that `unchanged` names are in the row of the mirror with the key in `old_keys`.
    """

    rows: pa.Table
    unchanged: tuple[tuple[str, ...], ...]
    old_keys: pa.Table


@dataclass(frozen=True)
class TableChanges:
    """What happened to a table: `complete_changes` makes weighted rows of it and what the mirror held."""

    source: SourceTable
    truncated: bool  # everything that the mirror held goes
    rows: pa.Table  # whole rows with their weights
    removed_keys: pa.Table  # the rows of the mirror with these keys go; there is one for each
    partial: PartialRows


@dataclass(frozen=True)
class Batch:
    """`transactions` counts those that changed one of the tables; others may have moved `end_lsn` too.

    `end_lsn` is where the last transaction that was shown ended. The log was read up to `read_lsn`: between
    the two there was nothing of ours, so that the slot need not keep it.
    """

    tables: tuple[TableChanges, ...]
    end_lsn: int
    read_lsn: int
    transactions: int
    committed: datetime | None  # when the last of them was
    first_committed: datetime | None = None  # when the first that changed one of the tables was
    records: int = 0  # of the log that were read
    is_cut: bool = False  # there may be more before the end


def peek_changes(
    connection: Connection,
    slot: str,
    publication: str,
    followed: Sequence[Followed],
    after: int,
    max_changes: int = 10_000,
    upto: LogEnd | None = None,
    checked: bool = False,
) -> Batch:
    """The next transactions after a position: at least one, and no more once there are `max_changes`.

    A transaction is never cut, so a large one comes whole. Nothing is consumed. Slot and publication are
    looked at first, unless the caller has `checked` them.
    """
    if not 1 <= max_changes <= 10_000_000:
        raise SettingError(
            "wal_max_changes_per_poll",
            f"{max_changes} is outside 1 to 10000000",
            advice="Choose a value between 1 and 10000000.",
        )
    if not checked:
        require_slot(connection, slot, after)
        require_published(connection, publication, ((f.source, f.published) for f in followed))
    end = upto or find_log_end(connection)
    shown = _Counted(_read_messages(connection, slot, publication, max_changes, end.lsn))
    with closing(shown.messages):
        net = assemble_messages(shown, followed, after)
    # The server stops early only at `max_changes`; it leaves out transactions that hold nothing of ours.
    is_cut = shown.count >= max_changes
    read = max(net.end_lsn, end.lsn) if end.whole and not is_cut else net.end_lsn
    return Batch(
        tuple(_make_changes(t) for t in net.tables),
        net.end_lsn,
        read,
        net.transactions,
        _convert_time(net.commit_time),
        _convert_time(net.first_commit_time),
        shown.count,
        is_cut,
    )


def _convert_time(commit_time: int | None) -> datetime | None:
    return None if commit_time is None else _EPOCH + timedelta(microseconds=commit_time)


@dataclass
class _Counted:
    messages: Generator[bytes, None, None]
    count: int = 0

    def __iter__(self) -> Iterator[bytes]:
        for message in self.messages:
            self.count += 1
            yield message


def _read_messages(
    connection: Connection, slot: str, publication: str, most: int, upto: int
) -> Generator[bytes, None, None]:
    """Protocol 1 streams nothing: transactions come in the order of their commits, each in one piece."""
    query = sql.SQL(
        "SELECT data FROM pg_logical_slot_peek_binary_changes({slot}, {upto}::pg_lsn, {most}, "
        "'proto_version', '1', 'publication_names', {publication}, 'messages', 'true')"
    ).format(
        slot=slot,
        upto=show_lsn(upto),
        most=most,
        publication=sql.Identifier(publication).as_string(None),
    )
    with closing(stream_rows(connection, query)) as found:
        for (data,) in found:
            yield data


# --- from texts of the log to values -------------------------------------------------------------


def _make_changes(log: TableLog) -> TableChanges:
    columns, source = log.followed.columns, log.followed.source
    net = _net_log(log)
    deleted = len(net.columns[0]) - net.inserted
    partial = net.partial
    return TableChanges(
        source,
        log.truncated,
        to_table(columns, _take_texts(net.columns), parse_weights([1] * net.inserted + [-1] * deleted)),
        _make_keys(log.followed, net.removed),
        PartialRows(
            to_table(columns, _take_texts(partial.columns), parse_weights([1] * len(partial.old_keys))),
            tuple(tuple(columns[n].name for n in row) for row in partial.unchanged),
            _make_keys(log.followed, partial.old_keys),
        ),
    )


def _net_log(log: TableLog) -> NetRows:
    followed = log.followed
    rows = locate_values(len(followed.columns), followed.before, log.parts)
    return net_of_whole_rows(rows) if followed.full else net_by_key(rows, followed.identity)


def _make_keys(followed: Followed, keys: Sequence[Key]) -> pa.Table:
    if followed.full:
        return pa.table({})
    columns = [followed.columns[n] for n in followed.identity]
    turned = zip(*keys, strict=True) if keys else [()] * len(columns)
    texts = _take_texts(pa.array(column, pa.large_binary()) for column in turned)
    return pa.table({c.name: from_text(c.name, c.type, t) for c, t in zip(columns, texts, strict=True)})


def _take_texts(columns: Iterable[pa.Array]) -> list[pa.Array]:
    return [column.cast(pa.string()) for column in columns]


# --- together with the mirror --------------------------------------------------------------------


def complete_changes(changes: TableChanges, mirror: pa.Table) -> pa.Table:
    """All changes of a table as weighted rows.

    `mirror` holds, without weights, the rows with the removed keys, or all rows if the table was truncated.
    """
    shape = changes.rows.drop_columns([WEIGHT]).schema
    held = mirror.select(shape.names).cast(shape)
    deleted = held.append_column(WEIGHT, parse_weights([-1] * held.num_rows))
    if changes.truncated:
        return pa.concat_tables([deleted, changes.rows])
    names = changes.removed_keys.column_names
    places = {key: n for n, key in enumerate(_make_tuples(held, names))}
    if held.num_rows != len(places) or set(places) != set(_make_tuples(changes.removed_keys, names)):
        raise ResyncNeededError(
            changes.source.full_name, "the log deletes rows that the mirror does not have"
        )
    return pa.concat_tables([deleted, changes.rows, _fill_partial(changes.partial, held, places)])


def _fill_partial(partial: PartialRows, mirror: pa.Table, places: dict[tuple[object, ...], int]) -> pa.Table:
    """The partial rows with what the mirror held under their old keys."""
    rows, keys = partial.rows, partial.old_keys
    found = mirror.take(pa.array([places[k] for k in _make_tuples(keys, keys.column_names)], pa.int64()))
    for n, name in enumerate(mirror.column_names):
        kept = pa.array([name in unchanged for unchanged in partial.unchanged], pa.bool_())
        rows = rows.set_column(
            n, rows.schema.field(n), pc.if_else(kept, found.column(name), rows.column(name))
        )
    return rows


def _make_tuples(rows: pa.Table, names: Sequence[str]) -> list[tuple[object, ...]]:
    return list(zip(*(python_values(rows.column(n)) for n in names), strict=True))
