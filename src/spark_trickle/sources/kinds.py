"""Kinds of sources, and who carries out the statements on each: one row for each of the two ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event

from spark_trickle.errors import AlreadyExistsError, UnsupportedError
from spark_trickle.lake.catalog import sources
from spark_trickle.model.report import Result
from spark_trickle.model.table import Table
from spark_trickle.sources import attach, resync, sync, wake
from spark_trickle.sources.captures import remove_unused_captures
from spark_trickle.sources.followed import attach as follow
from spark_trickle.sources.followed.opening import KINDS, SourceKind
from spark_trickle.sources.followed.sync import sync_followed
from spark_trickle.sources.link import Links
from spark_trickle.sources.mirrored import require_mirror
from spark_trickle.sources.progress import Listen, ignore_progress
from spark_trickle.sources.report import SyncReport
from spark_trickle.sql.statements import kinds as s
from spark_trickle.txn.work import Place


@dataclass(frozen=True)
class Front:
    """What can be asked of a source."""

    attach: Callable[[Place, Links, s.AttachSource], Result]
    detach: Callable[[Place, Links, s.DetachSource], Result]
    mirror_table: Callable[[Place, Links, s.MirrorTable, Listen], Result]
    mirror_tables: Callable[[Place, Links, s.MirrorTables, Listen], Result]
    sync: Callable[[Place, Links, str, Listen, bool], SyncReport]
    compare: Callable[[Place, Links, Table, Listen], Result]
    widen: Callable[[Place, Links, Table, Sequence[str]], Result]
    find_more_columns: Callable[[Place, Links, Table], tuple[str, ...]]
    clean_up: Callable[[Place, Links, str], None]
    await_change: Callable[[Place, Links, str, float, Event], None]


def _copy_again(
    place: Place, links: Links, table: Table, progress: Listen, more: Sequence[str] = ()
) -> Result:
    with sync.use_source(place, links, require_mirror(table).source, progress) as job:
        landing, _ = resync.resync_mirror(job, table, more)
        return Result(landing.inserted, 0, landing.deleted)


def _find_columns_there(place: Place, links: Links, table: Table) -> tuple[str, ...]:
    with sync.use_source(place, links, require_mirror(table).source) as job:
        return tuple(c for c in job.require_remote(table).column_names if not table.has_column(c))


def _clean_up(place: Place, links: Links, name: str) -> None:
    with sync.use_source(place, links, name) as job:
        remove_unused_captures(job)


_POSTGRES = Front(
    attach=attach.attach_database,
    detach=attach.detach_database,
    mirror_table=attach.mirror_table,
    mirror_tables=attach.mirror_tables,
    sync=sync.sync_mirrors,
    compare=_copy_again,
    widen=lambda place, links, table, more: _copy_again(place, links, table, ignore_progress, more),
    find_more_columns=_find_columns_there,
    clean_up=_clean_up,
    await_change=wake.await_change,
)
# Their connections are made anew for every use: what they read has no turn to wait for.
_FOLLOWED = Front(
    attach=lambda place, _, statement: follow.attach_followed(place, statement),
    detach=lambda place, _, statement: follow.detach_followed(place, statement),
    mirror_table=lambda place, _, statement, listen: follow.follow_table(place, statement),
    mirror_tables=lambda place, _, statement, listen: follow.follow_tables(place, statement),
    sync=lambda place, _, name, listen, take_over: sync_followed(place, name),
    compare=lambda place, _, table, listen: follow.compare_followed(place, table),
    widen=lambda place, _, table, more: follow.widen_followed(place, table, more),
    find_more_columns=lambda place, _, table: follow.find_more_columns(place, table),
    clean_up=lambda place, _, name: None,
    await_change=lambda place, _, name, seconds, stop: _wait(stop, seconds),
)
POSTGRES = "postgres"


def register_kind(name: str, kind: SourceKind) -> None:
    """Let sources of a type of your own be attached."""
    if name == POSTGRES or name in KINDS:
        raise AlreadyExistsError("type of sources", name)
    KINDS[name] = kind


def find_front(kind: str) -> Front:
    if kind == POSTGRES:
        return _POSTGRES
    if kind not in KINDS:
        known = ", ".join((POSTGRES, *KINDS))
        raise UnsupportedError(f'a source of type "{kind}"', f"The types are {known}.")
    return _FOLLOWED


def front_of_source(place: Place, name: str) -> Front:
    return find_front(sources.find_source(place.warehouse.engine, name).kind)


def _wait(stop: Event, seconds: float) -> None:
    stop.wait(seconds)
