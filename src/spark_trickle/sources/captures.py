"""Adding tables of a source to the capture, by triggers or by a publication and a slot, and removing them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from psycopg import sql

from spark_trickle.errors import ResyncNeededError
from spark_trickle.model.source import MirrorStatus, SourceState
from spark_trickle.model.table import Table
from spark_trickle.sources.job import Job
from spark_trickle.sources.mirrored import capture_of, mirror_of
from spark_trickle.sources.postgres.capture import Capture
from spark_trickle.sources.postgres.discover import SourceTable, describe
from spark_trickle.sources.postgres.install import install, installed_captures, uninstall
from spark_trickle.sources.postgres.publication import publish, published, unpublish
from spark_trickle.sources.postgres.run import LOCK_SECONDS, run
from spark_trickle.sources.postgres.slot import create_slot, drop_slot, slot_state
from spark_trickle.sources.registering import owner_of, require_registered
from spark_trickle.txn.work import begin_work

_GOING_ON = (MirrorStatus.ACTIVE, MirrorStatus.COPYING)
_PATIENCE = 60.0  # seconds to wait for transactions that write


def put_triggers(job: Job, table: Table, remote: SourceTable) -> tuple[Capture, str]:
    """Capture a table by triggers; what may be left behind by a crash is noted before it is made."""
    require_registered(job)
    if remote.oid not in job.state.captured:
        job.note(replace(job.state, captured=(*job.state.captured, remote.oid)))
    capture = replace(capture_of(table, remote, job.options), owner=owner_of(job))
    return capture, install(job.connection, capture)


def triggers_of(job: Job, table: Table, remote: SourceTable) -> Capture:
    """The capture as the source itself knows it."""
    found = installed_captures(job.connection, job.options.schema).get(remote.oid)
    if found is None:
        raise ResyncNeededError(mirror_of(table).full_name, "its triggers were removed")
    return found.capture(remote)


def remove_triggers(job: Job, keep: Collection[int] = ()) -> None:
    """Take away the triggers that nobody needs any more; those of others were noted, but never made."""
    for oid in (o for o in job.state.captured if o not in keep):
        known = installed_captures(job.connection, job.options.schema)
        there = describe(job.connection, [oid])
        if oid in known and known[oid].owner == owner_of(job) and there:
            uninstall(job.connection, known[oid].planned(there[0]))
        job.note(replace(job.state, captured=tuple(o for o in job.state.captured if o != oid)))


# --- the log -------------------------------------------------------------------------------------


def open_log(
    job: Job, tables: Sequence[SourceTable], seconds: float | None = None
) -> tuple[SourceState, dict[int, str]]:
    """A publication of these tables and a slot that begins after it; the new state, and their marks.

    The slot waits until all transactions that write now have ended, but not longer than that.
    """
    require_registered(job)
    slot = publication = job.log_name
    if job.state.slot != slot:
        job.note(replace(job.state, slot=slot, publication=publication))
    drop_slot(job.connection, slot)  # one that was made before the publication knew these tables
    marks = publish(job.connection, publication, tables)
    limit = sql.SQL("SET statement_timeout = {}")
    most = _PATIENCE if seconds is None else seconds
    run(job.connection, limit.format(sql.Literal(f"{int(most * 1000)}ms")))
    try:
        return replace(job.state, lsn=create_slot(job.connection, slot)), marks
    finally:
        run(job.connection, limit.format(sql.Literal("0")))


def add_to_log(job: Job, tables: Sequence[SourceTable], new: Sequence[SourceTable] = ()) -> dict[int, str]:
    """Make the publication hold exactly these tables, of `new` ones without missing a change; their marks."""
    return publish(job.connection, job.state.publication, tables, new, LOCK_SECONDS)


def close_log(job: Job) -> None:
    """A slot that nobody reads would fill the disk of the server."""
    if job.state.slot:
        drop_slot(job.connection, job.state.slot)
        unpublish(job.connection, job.state.publication)
        job.note(replace(job.state, slot="", publication="", lsn=0))


def has_log(job: Job) -> bool:
    return bool(job.state.slot) and slot_state(job.connection, job.state.slot) is not None


def tidy(job: Job, shown: Mapping[int, str] | None = None) -> None:
    """Take away what was captured for tables that are no longer mirrored.

    `shown` is what the publication holds, if that is known.
    """
    mirrors = job.mirrors(begin_work(job.place))
    needed = () if job.by_log else tuple(mirror_of(t).oid for t, _ in mirrors)
    remove_triggers(job, needed)
    if job.by_log and job.state.publication:
        going_on = [t for t, s in mirrors if s.status in _GOING_ON]
        if shown is None:
            shown = published(job.connection, job.state.publication)
        if not shown.keys() <= {mirror_of(t).oid for t in going_on}:
            there = list(job.remote(going_on).values())
            if there:
                add_to_log(job, there)
