"""ATTACH and DETACH SOURCE, and tables of ours that follow one of the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from spark_trickle.errors import (
    AlreadyExistsError,
    InvalidDefinitionError,
    SourceAddressError,
    TableNotFoundError,
    UnsupportedError,
)
from spark_trickle.lake.catalog import sources
from spark_trickle.model import commit
from spark_trickle.model.report import Result
from spark_trickle.model.source import AttachedSource, MirrorState, MirrorStatus
from spark_trickle.model.table import Table
from spark_trickle.sources.attach import (
    find_mirrors,
    refuse_mirror_readers,
    refuse_published,
    release_mirrors,
)
from spark_trickle.sources.followed.in_place import land_content
from spark_trickle.sources.followed.job import FollowJob, move_to_version, read_version, use_followed
from spark_trickle.sources.followed.layout import describe_loaded
from spark_trickle.sources.followed.loading import load_arrivals
from spark_trickle.sources.followed.opening import KINDS, list_table_options, open_source
from spark_trickle.sources.followed.parts import define_parts, describe_parts
from spark_trickle.sources.followed.records import land_all, land_records
from spark_trickle.sources.followed.tables import adapt_table, can_compare, new_table
from spark_trickle.sources.interface import (
    Arrivals,
    Content,
    FileContent,
    LoadedTable,
    Lost,
    Records,
    RemoteTable,
    Version,
)
from spark_trickle.sources.landing import Landing, land_change, land_difference
from spark_trickle.sources.mirror_options import read_column_lists
from spark_trickle.sources.mirrored import require_mirror
from spark_trickle.sources.options import settle_paths
from spark_trickle.sql.statements import kinds as s
from spark_trickle.txn.names import free_name
from spark_trickle.txn.retry import retry_on_conflict
from spark_trickle.txn.work import Place, Work, begin_work, now


def attach_followed(place: Place, statement: s.AttachSource) -> Result:
    name, kind = statement.name.lower(), KINDS[statement.kind]
    options = settle_paths(kind.options, dict(statement.options))
    source = open_source(name, statement.kind, options)
    try:
        if not source.discover() and not source.capabilities.can_be_empty:
            raise SourceAddressError(f'the source "{name}" has no tables', "Check its path or its catalog.")
    finally:
        source.close()
    sources.add_source(place.warehouse.engine, AttachedSource(name, statement.kind, options, now()))
    return Result()


def follow_table(place: Place, statement: s.MirrorTable) -> Result:
    if len(statement.source) < 2:
        raise InvalidDefinitionError(
            f'"{".".join(statement.source)}" does not name a table of a source',
            "Write source.table, as in FROM SOURCE lake.orders.",
        )

    def attempt() -> Result:
        with use_followed(place, statement.source[0]) as job:
            work = begin_work(place)
            if statement.if_not_exists and work.catalog.find(statement.name, place.schema) is not None:
                return Result()
            remote = _find_remote(job, ".".join(statement.source[1:]))
            name = free_name(work, statement.name)
            more = list_table_options(job.attached.kind)
            skip, as_text = read_column_lists(dict(statement.options), more)
            options = tuple((n, v) for n, v in statement.options if n in more)
            if as_text:
                raise UnsupportedError(
                    f'the option "as_text" for a source of type {job.attached.kind}',
                    "Cast the column in a query.",
                )
            return _follow(job, work, remote, name, statement.columns, skip, options)

    return retry_on_conflict(place, attempt)


def follow_tables(place: Place, statement: s.MirrorTables) -> Result:
    """Those that are followed already stay as they are."""
    with use_followed(place, statement.source) as job:
        patterns = [p.strip() for p in statement.patterns.split(",")]
        wanted = [t for t in job.source.discover() if any(fnmatchcase(t, p) for p in patterns)]
        if not wanted:
            raise TableNotFoundError(statement.patterns, job.source.discover())
        known = {require_mirror(t).table for t, _ in job.find_tables(begin_work(place))}
        rows = 0
        for remote in (t for t in wanted if t not in known):
            last = remote.rpartition(".")[2]
            here = (statement.schema, last) if statement.schema else (last,)

            def attempt(remote: str = remote, here: tuple[str, ...] = here) -> int:
                work = begin_work(place)
                job.attached = sources.find_source(place.warehouse.engine, job.attached.name)
                return _follow(job, work, remote, free_name(work, here)).rows_inserted

            rows += retry_on_conflict(place, attempt)
        return Result(rows_inserted=rows)


def _find_remote(job: FollowJob, name: str) -> str:
    known = job.source.discover()
    for exact in (name, name.lower()):
        if exact in known:
            return exact
    raise TableNotFoundError(name, known)


def _follow(
    job: FollowJob,
    work: Work,
    remote: str,
    name: tuple[str, str],
    chosen: Sequence[str] = (),
    skip: Sequence[str] = (),
    options: tuple[tuple[str, str], ...] = (),
) -> Result:
    for table, _ in job.find_tables(work):
        if require_mirror(table).table == remote:
            raise AlreadyExistsError(f'mirror "{table.full_name}" of', require_mirror(table).full_name)
    if (taken := work.catalog.find(name, name[0])) is not None:
        raise AlreadyExistsError("table", taken.full_name)
    job.configure(remote, dict(options))
    version = _find_version(job, remote)
    content = _read_first(job, remote, version)
    if isinstance(content, Arrivals | Records) and (chosen or skip):
        raise UnsupportedError(
            f"a choice of columns for a source of type {job.attached.kind}",
            "Name the columns in the option schema.",
        )
    described = describe_table(work.place, job.source.describe(remote, version), content)
    in_place = job.source.capabilities.in_place
    table = new_table(work, job.attached.name, described, name, chosen, skip, in_place)
    table = replace(table, mirror=replace(require_mirror(table), options=options))
    work.define(commit.CreatedTable(table))
    if isinstance(content, Records):
        define_parts(work, table, describe_parts(described))
        (landing, _), version = land_records(work, table, content), content.reached
    elif isinstance(content, Arrivals):
        define_parts(work, table)
        loaded = load_arrivals(work, table, content)
        landing, version = loaded.landing, version if loaded.whole else ""
    else:
        landing, _ = land_version(work, table, content, "")
    state = move_to_version(MirrorState(table.id, job.attached.name, MirrorStatus.ACTIVE), version)
    job.commit_work(work, f"follow {require_mirror(table).full_name}", [state])
    return Result(rows_inserted=landing.inserted)


def _read_first(job: FollowJob, remote: str, version: Version) -> Content:
    """All of a table, or the first batch of a log."""
    if not job.source.capabilities.log:
        return job.source.read(remote, version)
    first = job.source.changes(remote, "", version)
    assert isinstance(first, Records)
    return first


def _find_version(job: FollowJob, remote: str) -> Version:
    found = job.source.position([remote])
    if remote not in found:
        raise TableNotFoundError(remote, job.source.discover())
    return found[remote]


def describe_table(place: Place, found: RemoteTable | LoadedTable, content: Content) -> RemoteTable:
    """The columns of a new table, which Spark may have to read from its files."""
    if isinstance(found, RemoteTable):
        return found
    assert isinstance(content, Arrivals)
    return describe_loaded(place.spark, found, content)


def land_version(
    work: Work, table: Table, content: Content, reason: str, can_compare: bool = True
) -> tuple[Landing, str]:
    """All that a version of a table holds, as the difference to what we have; and why that is unknown."""
    assert not isinstance(content, Arrivals | Records)  # they are loaded, not compared
    if isinstance(content, FileContent):
        return land_content(work, table, content, reason, can_compare)
    if work.files(table):
        return land_difference(work, table, content.pieces), ""
    return land_change(work, table, content.pieces), ""


def compare_followed(place: Place, table: Table, more: Sequence[str] = ()) -> Result:
    """The columns and files of a table as they are in the source now, whatever was known of them."""
    with use_followed(place, require_mirror(table).source) as job:
        work, remote = begin_work(place), require_mirror(table).table
        state = next(s for t, s in job.find_tables(work) if t.id == table.id)
        version = _find_version(job, remote)
        if job.source.capabilities.log:
            landing, version = _read_log_again(job, work, table, read_version(state), version)
        elif isinstance(content := job.source.read(remote, version), Arrivals):
            loaded = load_arrivals(work, table, content, again=True)
            landing, version = loaded.landing, version if loaded.whole else ""
        else:
            described = describe_table(place, job.source.describe(remote, version), content)
            new = adapt_table(table, described, more)
            if new != table:
                work.define(commit.AlteredTable(table, new))
            reason = "the table was compared again"
            landing, _ = land_version(work, new, content, reason, can_compare(table, new))
        done = move_to_version(MirrorState(table.id, state.source, MirrorStatus.ACTIVE), version)
        job.commit_work(work, f"comparison of {require_mirror(table).full_name}", [done])
        return Result(landing.inserted, 0, landing.deleted)


def _read_log_again(
    job: FollowJob, work: Work, table: Table, before: Version, version: Version
) -> tuple[Landing, Version]:
    """What is kept by key is compared with the whole log; else reading goes on after what was lost."""
    change = job.source.changes(require_mirror(table).table, before, version)
    records = change.rest if isinstance(change, Lost) else change
    if isinstance(records, Records) and not records.by_key:
        return land_records(work, table, records)[0], records.reached
    whole = job.source.read(require_mirror(table).table, version)
    assert isinstance(whole, Records)
    return land_all(work, table, whole), whole.reached


def widen_followed(place: Place, table: Table, more: Sequence[str]) -> Result:
    return compare_followed(place, table, more)


def find_more_columns(place: Place, table: Table) -> tuple[str, ...]:
    """Columns of the source that the table does not have."""
    with use_followed(place, require_mirror(table).source) as job:
        remote = require_mirror(table).table
        job.configure(remote, dict(require_mirror(table).options))
        described = job.source.describe(remote, _find_version(job, remote))
        if isinstance(described, LoadedTable):  # its columns are those of files that were loaded
            return ()
        return tuple(c.name for c in described.columns if not table.has_column(c.name))


def detach_followed(place: Place, statement: s.DetachSource) -> Result:
    """Copies stay here as tables, or go; what is in place cannot be read without its source."""
    engine = place.warehouse.engine
    attached = sources.find_source(engine, statement.name)
    in_place = [t.full_name for t in find_mirrors(begin_work(place), attached) if require_mirror(t).in_place]
    if in_place and not statement.cascade:
        raise InvalidDefinitionError(
            f'tables are read in place from the source "{attached.name}": {", ".join(sorted(in_place))}',
            "Write DETACH SOURCE … CASCADE to drop them here; the source keeps its files.",
        )
    refuse_mirror_readers(place, attached, statement.cascade)
    refuse_published(place, attached)
    release_mirrors(place, attached, statement.cascade)
    sources.remove_source(engine, attached.name)
    return Result()
