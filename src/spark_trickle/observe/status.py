"""Table functions on status: stream tables, sources, the scheduler, and whether all is well."""

from __future__ import annotations

from datetime import datetime

from spark_trickle.lake.catalog import reports, scheduling, sources
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.lake.catalog.read_counts import all_reads
from spark_trickle.model.stream import Action, Mode, Status, Stream
from spark_trickle.model.stream_options import Tier
from spark_trickle.model.table import Table
from spark_trickle.observe.answer import Answer
from spark_trickle.scheduler.due import World, compute_interval, plan_refreshes, read_interval
from spark_trickle.scheduler.survey import survey_world
from spark_trickle.scheduler.tiers import TableUse, suggest_tier
from spark_trickle.txn.work import Work, now


def status(work: Work) -> Answer:
    """Every stream table: how it is refreshed, how far it lags, and what it is waiting for."""
    world, moment = survey_world(work.place), now()
    found = plan_refreshes(world, moment, work.place.settings)
    due = {i for unit in found.due for i in unit.ids}
    with open_reader(work.place.warehouse.engine) as connection:
        past = scheduling.last_runs(connection)
        actions = scheduling.last_actions(connection)
        running = {i for i, _, _ in scheduling.read_running(connection)}
    rows = []
    for i in world.graph.order:
        table, standing = world.graph.tables[i], world.standings[i]
        stream, last = table.stream, past.get(i)
        assert stream is not None
        waits = "running" if i in running else "due" if i in due else found.waiting.get(i, "")
        rows.append(
            (
                table.full_name,
                standing.state.status.value,
                stream.mode.value,
                effective_mode(stream, actions.get(i)),
                stream.schedule or "calculated",
                stream.options.tier.value,
                standing.state.frontier,
                _count_seconds(standing.changed_since, moment),
                last.started if last else None,
                last.action if last else None,
                last.duration_ms if last else None,
                standing.state.errors_in_a_row,
                standing.state.error,
                waits,
            )
        )
    columns = {
        "name": "string",
        "status": "string",
        "refresh_mode": "string",
        "effective_mode": "string",
        "schedule": "string",
        "tier": "string",
        "frontier": "long",
        "staleness_seconds": "double",
        "last_refresh": "timestamp",
        "last_action": "string",
        "last_duration_ms": "double",
        "consecutive_errors": "long",
        "error": "string",
        "waiting_for": "string",
    }
    return Answer(columns, rows)


def effective_mode(stream: Stream, last_action: str | None) -> str | None:
    """What refreshes really do, whatever mode was asked for; None while AUTO had nothing to do."""
    if stream.mode is Mode.IMMEDIATE:
        return Mode.IMMEDIATE.value
    if stream.mode is Mode.FULL or stream.moments:
        return Mode.FULL.value
    if last_action is None:
        return Mode.DIFFERENTIAL.value if stream.mode is Mode.DIFFERENTIAL else None
    return Mode.DIFFERENTIAL.value if last_action == Action.DIFFERENTIAL else Mode.FULL.value


def _count_seconds(since: datetime | None, moment: datetime) -> float:
    return (moment - since).total_seconds() if since is not None else 0.0


def health_check(work: Work) -> Answer:
    """One row for each check: ok, warning or error, and what to do about it."""
    world, moment, settings = survey_world(work.place), now(), work.place.settings
    with open_reader(work.place.warehouse.engine) as connection:
        holder = scheduling.read_holder(connection)
        orphans = [
            r for r in scheduling.read_running(connection) if holder is None or r[1] != holder.session_id
        ]
        paused = scheduling.is_paused(connection)
    alive = holder is not None and holder.expires > moment
    scheduled = [i for i in world.graph.order if not _never_due(world, i)]
    stale = [i for i in scheduled if _is_late(world, i, moment, work)]
    by_status = {s: [i for i in world.graph.order if world.standings[i].state.status is s] for s in Status}
    rows = [
        _make_check(
            "scheduler",
            alive or not scheduled,
            "warning",
            "running",
            "no scheduler is running: start `trickle run`",
        ),
        _make_check(
            "paused",
            not paused,
            "warning",
            "refreshes are not paused",
            "all refreshes are paused: call resume_all()",
        ),
        _make_names_check(
            "suspended",
            by_status[Status.SUSPENDED],
            world,
            "error",
            "see diagnose_errors(), then call resume()",
        ),
        _make_names_check(
            "fuses", by_status[Status.FUSED], world, "error", "check what changed, then call reset_fuse()"
        ),
        _make_names_check("errors", by_status[Status.ERROR], world, "warning", "see diagnose_errors()"),
        _make_names_check("never filled", by_status[Status.INITIALIZING], world, "warning", "refresh them"),
        _make_names_check(
            "stale", stale, world, "warning", f"lagging for more than {settings.stale_alert_seconds:g} s"
        ),
        _make_check(
            "orphans",
            not orphans,
            "warning",
            "no interrupted refreshes",
            f"interrupted refreshes: {len(orphans)}",
        ),
        _make_names_check("gates", sorted(world.gates), world, "warning", "closed: call ungate_source()"),
    ]
    return Answer({"check_name": "string", "severity": "string", "detail": "string"}, rows)


def _never_due(world: World, i: int) -> bool:
    stream = world.graph.tables[i].stream
    return stream is None or stream.mode is Mode.IMMEDIATE or stream.options.tier is Tier.FROZEN


def _is_late(world: World, i: int, moment: datetime, work: Work) -> bool:
    since, settings = world.standings[i].changed_since, work.place.settings
    allowed = max(settings.stale_alert_seconds, 2 * compute_interval(world, i, settings))
    return since is not None and (moment - since).total_seconds() > allowed


def _make_check(name: str, fine: bool, severity: str, good: str, bad: str) -> tuple[str, str, str]:
    return (name, "ok", good) if fine else (name, severity, bad)


def _make_names_check(
    name: str, ids: list[int], world: World, severity: str, advice: str
) -> tuple[str, str, str]:
    listed = ", ".join(world.graph.tables[i].full_name for i in ids if i in world.graph.tables)
    return (name, "ok", "none") if not ids else (name, severity, f"{listed}: {advice}")


def dependency_tree(work: Work) -> Answer:
    """Which stream table reads which source, as a tree with the sources at the top."""
    graph = survey_world(work.place).graph
    roots = sorted({s for reads in graph.reads.values() for s in reads if s not in graph.reads})
    rows: list[tuple[object, ...]] = []
    shown: set[int] = set()

    def visit_table(i: int, way: tuple[int, ...]) -> None:
        """A circle is shown once around: where it closes, the way ends."""
        name, above = graph.name(i), graph.name(way[-1]) if way else None
        table = graph.tables.get(i)
        kind = table.stream.mode.value if table is not None and table.stream is not None else "TABLE"
        closed = " ↺" if i in way else ""
        rows.append((len(way), f"{'  ' * len(way)}{name}{closed}", name, kind, above))
        shown.add(i)
        for reader in graph.readers.get(i, ()) if i not in way else ():
            visit_table(reader, (*way, i))

    for root in roots:
        visit_table(root, ())
    for i in graph.order:
        if i not in shown:  # it reads no table, nor does anything that it reads
            visit_table(i, ())
    columns = {"depth": "long", "tree": "string", "name": "string", "kind": "string", "reads": "string"}
    return Answer(columns, rows)


def list_sources(work: Work, table: Table) -> Answer:
    """The tables that a stream table reads, and the columns that it uses."""
    assert table.stream is not None
    rows = []
    for source in table.stream.sources:
        known = work.catalog.table_by_id(source.table_id)
        name = known.full_name if known is not None else f"{source.full_name} (dropped)"
        kind = "STREAM TABLE" if known is not None and known.stream is not None else "TABLE"
        columns = ", ".join(c.name for c in source.columns)
        rows.append((name, kind, columns, work.row_count(known) if known is not None else None))
    return Answer({"source": "string", "kind": "string", "columns_used": "string", "rows": "long"}, rows)


def change_buffer_sizes(work: Work) -> Answer:
    """The changes of each source that some stream table has not read yet."""
    world = survey_world(work.place)
    frontiers = world.oldest_seen()
    with open_reader(work.place.warehouse.engine) as connection:
        found = reports.read_unseen(connection, frontiers)
    rows = []
    for i in sorted(frontiers):
        size = found.get(i, reports.Unseen(0, 0, 0))
        readers = ", ".join(world.graph.tables[r].full_name for r in world.graph.readers.get(i, ()))
        rows.append((world.graph.name(i), size.files, size.rows, size.bytes, frontiers[i], readers))
    columns = {
        "source": "string",
        "pending_files": "long",
        "pending_rows": "long",
        "pending_bytes": "long",
        "oldest_frontier": "long",
        "readers": "string",
    }
    return Answer(columns, rows)


def worker_pool_status(work: Work) -> Answer:
    """The refreshes that are running, each with its session."""
    with open_reader(work.place.warehouse.engine) as connection:
        running = scheduling.read_running(connection)
    names = {t.id: t.full_name for t in work.catalog.tables()}
    workers = work.place.settings.max_concurrent_refreshes
    rows = [(names.get(i, str(i)), session, started, workers) for i, session, started in running]
    columns = {"name": "string", "session_id": "string", "started": "timestamp", "workers": "long"}
    return Answer(columns, rows)


def scheduler_diagnostics(work: Work) -> Answer:
    """Who holds the scheduler lease, what the next round would refresh, and why other stream tables wait."""
    world, moment = survey_world(work.place), now()
    found = plan_refreshes(world, moment, work.place.settings)
    with open_reader(work.place.warehouse.engine) as connection:
        holder = scheduling.read_holder(connection)
    if holder is None:
        who = "nobody"
    else:
        who = f"process {holder.process_id}, until {holder.expires:%Y-%m-%d %H:%M:%S} UTC"
    rows: list[tuple[str, str]] = [
        ("scheduler", who),
        ("paused", str(world.paused).lower()),
        ("stream tables", str(len(world.graph.order))),
        ("groups", str(len(world.graph.groups))),
        ("due", str(sum(len(u.ids) for u in found.due))),
        ("next wake", f"{found.wake:%Y-%m-%d %H:%M:%S} UTC" if found.wake else "when something changes"),
    ]
    for unit in found.due:
        names = ", ".join(world.graph.tables[i].full_name for i in unit.ids)
        rows.append((f"due: {names}", unit.reason))
    rows += [(f"waiting: {world.graph.tables[i].full_name}", why) for i, why in sorted(found.waiting.items())]
    return Answer({"property": "string", "value": "string"}, rows)


def suggest_tiers(work: Work) -> Answer:
    """For every stream table with a schedule: how often it is read, and the tier that would fit this."""
    world, moment, place = survey_world(work.place), now(), work.place
    place.warehouse.read_counter.write(place.warehouse.engine, moment)
    with open_reader(place.warehouse.engine) as connection:
        read, watched = all_reads(connection), reports.read_first_refreshes(connection)
        followed = set(sources.read_published(connection)) | {
            i for i in world.graph.readers if world.graph.readers[i]
        }
    rows = []
    for i in world.graph.order:
        table = world.graph.tables[i]
        if table.stream is None or table.stream.mode is Mode.IMMEDIATE:
            continue
        tier = table.stream.options.tier
        use = TableUse(
            tier, read_interval(world, i, place.settings), watched.get(i), read.get(i), i in followed
        )
        suggested, why = suggest_tier(use, moment)
        seen, seconds = use.reads, use.seconds_between_reads(moment)
        counted = (seen.count, seen.last) if seen is not None else (0, None)
        rows.append(
            (table.full_name, tier.value, suggested.value, *counted, seconds, use.schedule_seconds, why)
        )
    columns = {
        "name": "string",
        "tier": "string",
        "suggested_tier": "string",
        "reads": "long",
        "last_read": "timestamp",
        "seconds_between_reads": "double",
        "schedule_seconds": "double",
        "reason": "string",
    }
    return Answer(columns, rows)


def watermark_status(work: Work) -> Answer:
    """The watermarks of sources, and the groups that they belong to."""
    names = {t.id: t.full_name for t in work.catalog.tables()}
    with open_reader(work.place.warehouse.engine) as connection:
        groups, marks = scheduling.watermark_groups(connection), scheduling.read_watermarks(connection)
    member = {i: (name, tolerance) for name, (ids, tolerance) in groups.items() for i in ids}
    rows = []
    for i in sorted({*marks, *member}):
        mark, (group, tolerance) = marks.get(i), member.get(i, (None, None))
        rows.append(
            (
                names.get(i, str(i)),
                mark[0] if mark else None,
                mark[1] if mark else None,
                mark[2] if mark else None,
                group,
                tolerance,
            )
        )
    columns = {
        "source": "string",
        "watermark": "timestamp",
        "snapshot_id": "long",
        "advanced": "timestamp",
        "watermark_group": "string",
        "tolerance_seconds": "double",
    }
    return Answer(columns, rows)


def alerts(work: Work, most: int = 100) -> Answer:
    """The last alerts, newest first."""
    found = scheduling.read_alerts(work.place.warehouse.engine, most)
    columns = {"raised": "timestamp", "event": "string", "name": "string", "message": "string"}
    return Answer(columns, [(a.raised, a.event, a.table_name, a.message) for a in found])
