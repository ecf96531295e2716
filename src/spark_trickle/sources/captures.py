"""Adding tables of a source to the capture, by triggers or by a publication and a slot, and removing them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from psycopg import sql

from spark_trickle.errors import ResyncNeededError
from spark_trickle.model.source import MirrorStatus, SourceState
from spark_trickle.model.table import Table
from spark_trickle.sources.job import Job
from spark_trickle.sources.mirrored import plan_mirror_capture, require_mirror
from spark_trickle.sources.postgres.capture import Capture
from spark_trickle.sources.postgres.discover import SourceTable, describe_tables
from spark_trickle.sources.postgres.install import install_capture, read_installed_captures, uninstall_capture
from spark_trickle.sources.postgres.publication import drop_publication, publish_tables, read_publication
from spark_trickle.sources.postgres.run import LOCK_SECONDS, run_statements
from spark_trickle.sources.postgres.slot import create_slot, drop_slot, slot_state
from spark_trickle.sources.registering import name_owner, require_registered
from spark_trickle.txn.work import begin_work

_GOING_ON = (MirrorStatus.ACTIVE, MirrorStatus.COPYING)
_PATIENCE = 60.0  # seconds to wait for transactions that write


def put_triggers(job: Job, table: Table, remote: SourceTable) -> tuple[Capture, str]:
    """Capture a table by triggers; what may be left behind by a crash is noted before it is made."""
    require_registered(job)
    if remote.oid not in job.state.captured:
        job.note_state(replace(job.state, captured=(*job.state.captured, remote.oid)))
    capture = replace(plan_mirror_capture(table, remote, job.options), owner=name_owner(job))
    return capture, install_capture(job.connection, capture)


def read_triggers(job: Job, table: Table, remote: SourceTable) -> Capture:
    """The capture as the source itself knows it."""
    found = read_installed_captures(job.connection, job.options.schema).get(remote.oid)
    if found is None:
        raise ResyncNeededError(require_mirror(table).full_name, "its triggers were removed")
    return found.make_capture(remote)


def remove_triggers(job: Job, keep: Collection[int] = ()) -> None:
    """Take away the triggers that nobody needs any more; those of others were noted, but never made."""
    for oid in (o for o in job.state.captured if o not in keep):
        known = read_installed_captures(job.connection, job.options.schema)
        there = describe_tables(job.connection, [oid])
        if oid in known and known[oid].owner == name_owner(job) and there:
            uninstall_capture(job.connection, known[oid].plan_capture(there[0]))
        job.note_state(replace(job.state, captured=tuple(o for o in job.state.captured if o != oid)))


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
        job.note_state(replace(job.state, slot=slot, publication=publication))
    drop_slot(job.connection, slot)  # one that was made before the publication knew these tables
    marks = publish_tables(job.connection, publication, tables)
    limit = sql.SQL("SET statement_timeout = {}")
    most = _PATIENCE if seconds is None else seconds
    run_statements(job.connection, limit.format(sql.Literal(f"{int(most * 1000)}ms")))
    try:
        return replace(job.state, lsn=create_slot(job.connection, slot)), marks
    finally:
        run_statements(job.connection, limit.format(sql.Literal("0")))


def add_to_log(job: Job, tables: Sequence[SourceTable], new: Sequence[SourceTable] = ()) -> dict[int, str]:
    """Make the publication hold exactly these tables, of `new` ones without missing a change; their marks."""
    return publish_tables(job.connection, job.state.publication, tables, new, LOCK_SECONDS)


def close_log(job: Job) -> None:
    """A slot that nobody reads would fill the disk of the server."""
    if job.state.slot:
        drop_slot(job.connection, job.state.slot)
        drop_publication(job.connection, job.state.publication)
        job.note_state(replace(job.state, slot="", publication="", lsn=0))


def has_log(job: Job) -> bool:
    return bool(job.state.slot) and slot_state(job.connection, job.state.slot) is not None


def remove_unused_captures(job: Job, shown: Mapping[int, str] | None = None) -> None:
    """Take away what was captured for tables that are no longer mirrored.

    `shown` is what the publication holds, if that is known.
    """
    mirrors = job.find_mirrors(begin_work(job.place))
    needed = () if job.by_log else tuple(require_mirror(t).oid for t, _ in mirrors)
    remove_triggers(job, needed)
    if job.by_log and job.state.publication:
        going_on = [t for t, s in mirrors if s.status in _GOING_ON]
        if shown is None:
            shown = read_publication(job.connection, job.state.publication)
        if not shown.keys() <= {require_mirror(t).oid for t in going_on}:
            there = list(job.read_remote(going_on).values())
            if there:
                add_to_log(job, there)
