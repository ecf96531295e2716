"""ATTACH and DETACH SOURCE, and tables of a source that become mirrors."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_trickle.errors import (
    AlreadyExistsError,
    InvalidDefinitionError,
    SourceSetupError,
    TableNotFoundError,
)
from spark_trickle.lake.catalog import sources
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.model import commit
from spark_trickle.model.report import Result
from spark_trickle.model.source import AttachedSource, MirrorState, MirrorStatus
from spark_trickle.model.table import Table
from spark_trickle.sources.captures import close_log, remove_triggers
from spark_trickle.sources.copying import begin_copy, go_on
from spark_trickle.sources.job import Job
from spark_trickle.sources.link import Links
from spark_trickle.sources.mirror_options import read_column_lists
from spark_trickle.sources.mirrored import new_mirror, require_mirror
from spark_trickle.sources.postgres.discover import SourceTable, find_tables
from spark_trickle.sources.postgres.names import quote_name
from spark_trickle.sources.postgres.options import CdcMode, read_options
from spark_trickle.sources.postgres.status import server_findings
from spark_trickle.sources.progress import Listen
from spark_trickle.sources.registering import end_registration
from spark_trickle.sources.sync import use_source
from spark_trickle.sql.statements import kinds as s
from spark_trickle.txn.names import free_name, refuse_readers
from spark_trickle.txn.retry import retry_on_conflict, retry_work
from spark_trickle.txn.work import Place, Work, begin_work, now


@dataclass(frozen=True)
class MirrorRequest:
    """What CREATE TABLE … FROM SOURCE asks for."""

    name: tuple[str, str]
    table: SourceTable
    columns: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    as_text: tuple[str, ...] = ()


def attach_database(place: Place, links: Links, statement: s.AttachSource) -> Result:
    name, engine = statement.name.lower(), place.warehouse.engine
    options = read_options(dict(statement.options))
    with links.use_connection(name, options, "attach") as connection:
        find_tables(connection, options.tables)
        if options.cdc_mode is CdcMode.WAL:
            for finding in server_findings(connection, wants_log=True):
                if not finding.ok:
                    raise SourceSetupError(f"{finding.check} is {finding.value}", finding.fix)
    links.forget(name)
    sources.add_source(engine, AttachedSource(name, statement.kind, dict(statement.options), now()))
    return Result()


# --- mirrors -------------------------------------------------------------------------------------


def mirror_table(place: Place, links: Links, statement: s.MirrorTable, listen: Listen) -> Result:
    if len(statement.source) != 3:
        raise InvalidDefinitionError(
            f'"{".".join(statement.source)}" does not name a table of a source',
            "Write source.schema.table, as in FROM SOURCE shop.public.orders.",
        )
    with use_source(place, links, statement.source[0], listen) as job:
        work = begin_work(place)
        if statement.if_not_exists and work.catalog.find(statement.name, place.schema) is not None:
            return Result()
        remote = find_table(job, statement.source[1:])
        skip, as_text = read_column_lists(dict(statement.options))
        name = free_name(work, statement.name)
        return Result(
            rows_inserted=_copy_mirror(job, MirrorRequest(name, remote, statement.columns, skip, as_text))
        )


def mirror_tables(place: Place, links: Links, statement: s.MirrorTables, listen: Listen) -> Result:
    """Those that are mirrored already stay as they are."""
    with use_source(place, links, statement.source, listen) as job:
        known = {require_mirror(t).oid for t, _ in job.find_mirrors(begin_work(place))}
        allowed = {t.oid for t in find_tables(job.connection, job.options.tables)}
        found = [t for t in find_tables(job.connection, statement.patterns) if t.oid in allowed]
        rows = 0
        for remote in (t for t in found if t.oid not in known):
            place_here = (statement.schema, remote.name) if statement.schema else (remote.name,)
            rows += _copy_mirror(job, MirrorRequest(free_name(begin_work(place), place_here), remote))
    return Result(rows_inserted=rows)


def find_table(job: Job, parts: tuple[str, ...]) -> SourceTable:
    """A table of the source by its exact name, or by its lower case as PostgreSQL would find it."""
    allowed = {t.oid: t for t in find_tables(job.connection, job.options.tables)}
    for exact in (parts, tuple(p.lower() for p in parts)):
        for table in allowed.values():
            if (table.schema, table.name) == exact:
                return table
    try:
        there = find_tables(job.connection, quote_name(*parts))
    except TableNotFoundError:
        there = ()
    if there:
        raise InvalidDefinitionError(
            f'"{there[0].full_name}" does not match the tables of source "{job.source.name}"',
            f"The source was attached with tables '{job.options.tables}'.",
        )
    raise TableNotFoundError(".".join(parts), tuple(t.full_name for t in allowed.values()))


def _copy_mirror(job: Job, wanted: MirrorRequest) -> int:
    def attempt() -> int:
        job.read_source()
        return go_on(job, *_begin_mirror(job, begin_work(job.place), wanted))

    return retry_on_conflict(job.place, attempt)


def _begin_mirror(job: Job, work: Work, wanted: MirrorRequest) -> tuple[Table, MirrorState]:
    for table, state in job.find_mirrors(work):
        if require_mirror(table).oid == wanted.table.oid:
            if state.status is MirrorStatus.COPYING and require_mirror(table).becomes == wanted.name:
                return table, state  # cut off earlier
            raise AlreadyExistsError(f'mirror "{table.full_name}" of', require_mirror(table).full_name)
    if (taken := work.catalog.find(wanted.name, wanted.name[0])) is not None:
        raise AlreadyExistsError("table", taken.full_name)
    new = new_mirror(
        work, job.source.name, wanted.table, wanted.name, wanted.columns, wanted.skip, wanted.as_text
    )
    hidden = begin_copy(job, work, new)
    return hidden, next(st for t, st in job.find_mirrors(begin_work(job.place)) if t.id == hidden.id)


# --- the end -------------------------------------------------------------------------------------


def detach_database(place: Place, links: Links, statement: s.DetachSource) -> Result:
    """Nothing of ours stays in the source; mirrors stay here as tables, or go."""
    engine = place.warehouse.engine
    source = sources.find_source(engine, statement.name)
    refuse_mirror_readers(place, source, statement.cascade)
    if not statement.force:
        refuse_published(place, source)
        with use_source(place, links, source.name) as job:
            remove_triggers(job)
            close_log(job)
            end_registration(job)
    release_mirrors(place, source, statement.cascade)
    links.forget(source.name)
    sources.remove_source(engine, source.name)
    return Result()


def refuse_published(place: Place, source: AttachedSource) -> None:
    with open_reader(place.warehouse.engine) as connection:
        found = [p for p in sources.read_published(connection).values() if p.source == source.name]
    if found:
        tables = ", ".join(sorted(f"{p.schema}.{p.table}" for p in found))
        raise InvalidDefinitionError(
            f'stream tables are published to source "{source.name}": {tables}',
            "UNPUBLISH STREAM TABLE them first.",
        )


def find_mirrors(work: Work, source: AttachedSource) -> list[Table]:
    return [t for t in work.catalog.tables() if t.mirror is not None and t.mirror.source == source.name]


def refuse_mirror_readers(place: Place, source: AttachedSource, cascade: bool) -> None:
    work = begin_work(place)
    for table in find_mirrors(work, source) if cascade else ():
        refuse_readers(work, table, "dropped")


def release_mirrors(place: Place, source: AttachedSource, cascade: bool) -> None:
    def release(work: Work) -> None:
        for table in find_mirrors(work, source):
            half = require_mirror(table).becomes is not None
            gone: commit.Definition = commit.AlteredTable(table, replace(table, mirror=None))
            work.define(commit.DroppedTable(table) if cascade or half else gone)
        work.commit(f"detach {source.name}")

    retry_work(place, release)
