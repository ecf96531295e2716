"""One use of a source -> whether it serves this copy of the warehouse; what follows if it served another."""

from __future__ import annotations

import re
from dataclasses import replace

from spark_trickle.dml.delete import truncate_table
from spark_trickle.errors import WarehouseCopiedError
from spark_trickle.lake.catalog import sources
from spark_trickle.lake.catalog.site import find_site
from spark_trickle.model.source import CaptureMode, Landed, MirrorState, MirrorStatus, SourceState
from spark_trickle.model.table import Table
from spark_trickle.sources.job import Job
from spark_trickle.sources.ownership import Evidence, Ownership, catalog_exists, judge_site
from spark_trickle.sources.position import CopyPosition, move_to_position
from spark_trickle.sources.postgres.install import read_installed_captures
from spark_trickle.sources.postgres.moment import show_lsn
from spark_trickle.sources.postgres.options import CdcMode, read_options
from spark_trickle.sources.postgres.registration import (
    Registration,
    Subscription,
    read_registration,
    register_reader,
    unregister_reader,
)
from spark_trickle.sources.postgres.slot import drop_slot
from spark_trickle.txn.work import begin_work, now

_LONGEST_BASE = 31  # bytes of the name of a schema, before a piece of an id


def make_reader(job: Job) -> Subscription:
    return Subscription(job.options.schema, sources.warehouse_id(job.place.warehouse.engine), job.source.name)


def name_owner(job: Job) -> str:
    """Who reads what is captured; other warehouses, and other sources of this one, may not."""
    return f'source "{job.source.name}" of warehouse {sources.warehouse_id(job.place.warehouse.engine)}'


def has_part_in_source(state: SourceState) -> bool:
    return bool(state.captured or state.slot)


def require_registered(job: Job, take_over: bool = False) -> None:
    """Be the one copy of this warehouse that the source serves, or refuse; once in each use of it."""
    if job.registered:
        return
    reader = make_reader(job)
    if job.state.warehouse not in ("", reader.warehouse):
        _begin_anew(job, reader.warehouse)
        reader = make_reader(job)
    found = read_registration(job.connection, reader, job.state.slot)
    if found is None and _is_captured_for_another(job):
        _begin_anew(job, reader.warehouse)
        reader = make_reader(job)
    if found is None:
        _serve_source(job, reader, job.state.epoch)
    else:
        _settle_ownership(job, reader, found, take_over)
    job.registered = True


def _is_captured_for_another(job: Job) -> bool:
    """Whether what we captured was made under another identity, before sources knew whom they serve."""
    if job.state.warehouse or not job.state.captured:
        return False
    there, owner = read_installed_captures(job.connection, job.options.schema), name_owner(job)
    return any(there[oid].owner != owner for oid in job.state.captured if oid in there)


def end_registration(job: Job) -> None:
    unregister_reader(job.connection, make_reader(job))


def _settle_ownership(job: Job, reader: Subscription, found: Registration, take_over: bool) -> None:
    site = find_site(job.place.warehouse.engine)
    reason = _find_takeover(job.state, found)
    evidence = Evidence(found.site, site, bool(reason), catalog_exists(found.site, site))
    match judge_site(evidence, take_over):
        case Ownership.SAME:
            pass
        case Ownership.MOVED:
            _serve_source(job, reader, max(found.epoch, job.state.epoch) + 1)
        case Ownership.RESTORED:
            _restart_copies(job, reason, found.consumed)
            _serve_source(job, reader, max(found.epoch, job.state.epoch) + 1)
        case Ownership.COPY:
            statement = f"SYNC SOURCE {job.source.name} TAKE OVER"
            raise WarehouseCopiedError(
                f'source "{job.source.name}" serves', str(found.site), str(site), statement
            )


def _find_takeover(state: SourceState, found: Registration) -> str:
    """What the source gave to another copy of this warehouse, or to a later state of it."""
    if found.consumed > state.consumed:
        at = show_lsn(found.consumed)
    elif state.capture is CaptureMode.WAL and found.confirmed > state.lsn:
        at = show_lsn(found.confirmed)
    elif found.epoch > state.epoch:
        return "another copy of this warehouse has read the source since"
    else:
        return ""
    return f"a later state of this warehouse has read the source up to {at}, so this one is an older copy"


def _serve_source(job: Job, reader: Subscription, epoch: int) -> None:
    """First in the source, which keeps the others out, then here."""
    register_reader(job.connection, reader, find_site(job.place.warehouse.engine), epoch)
    if (job.state.warehouse, job.state.epoch) != (reader.warehouse, epoch):
        job.note_state(replace(job.state, warehouse=reader.warehouse, epoch=epoch))


def _restart_copies(job: Job, reason: str, consumed: int) -> None:
    """Everything that the later state made in the source is ours to use or to take away."""
    owner = name_owner(job)
    theirs = read_installed_captures(job.connection, job.options.schema)
    captured = {*job.state.captured, *(oid for oid, found in theirs.items() if found.owner == owner)}
    drop_slot(job.connection, job.log_name)
    _start_copies_over(job)
    state = replace(job.state, captured=tuple(sorted(captured)), consumed=max(consumed, job.state.consumed))
    job.note_state(state, _mark_lost(job, reason))


def _start_copies_over(job: Job) -> None:
    for table, state in job.find_mirrors(begin_work(job.place)):
        if state.status is MirrorStatus.COPYING:
            start_copy_over(job, table, state)


def start_copy_over(job: Job, table: Table, state: MirrorState) -> MirrorState:
    """Changes were lost meanwhile: what was copied so far cannot be brought up to date."""
    work = begin_work(job.place)
    truncate_table(work, table)
    state = move_to_position(state, CopyPosition())
    job.commit_work(work, "the copy was started again", [state])
    return state


def _mark_lost(job: Job, reason: str) -> list[MirrorState]:
    return [
        replace(s, status=MirrorStatus.RESYNC_NEEDED, reason=reason)
        for _, s in job.find_mirrors(begin_work(job.place))
        if s.status is MirrorStatus.ACTIVE
    ]


# --- a copy with an identity of its own ----------------------------------------------------------


def _begin_anew(job: Job, warehouse: str) -> None:
    """Triggers, buffers, slot and publication of the original stay with it; ours get other names."""
    options = dict(job.source.options) | {"schema": own_schema(job.options.schema, job.state, warehouse)}
    mode = CaptureMode.WAL if job.options.cdc_mode is CdcMode.WAL else CaptureMode.TRIGGER
    state = SourceState(capture=mode, warehouse=warehouse, history=job.state.history)
    reason = "this copy of the warehouse has an identity of its own now"
    _start_copies_over(job)
    attached = replace(job.source, options=options, attached=now())
    landed = Landed(job.source, state, tuple(_mark_lost(job, reason)))
    job.source = sources.attach_anew(job.place.warehouse.engine, attached, landed)
    job.options = read_options(job.source.options)


def own_schema(schema: str, state: SourceState, warehouse: str) -> str:
    """The name of a schema with a piece of an id, which replaces that of an earlier one."""
    plain = re.sub(rf"_{state.warehouse[:8]}$", "", schema)
    return f"{plain.encode()[:_LONGEST_BASE].decode(errors='ignore')}_{warehouse[:8]}"
