"""Table functions on refreshes: what they did and cost, what went wrong, and what would be better."""

from __future__ import annotations

import json
from datetime import timedelta

from spark_trickle.algebra.strategy import find_cost
from spark_trickle.lake.catalog import reports, states
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.lake.catalog.reports import Past, find_quantile
from spark_trickle.model.stream import GIVEN_UP
from spark_trickle.model.table import Table
from spark_trickle.observe.answer import Answer
from spark_trickle.refresh.compile import nodes_of
from spark_trickle.refresh.cost import estimate_cost
from spark_trickle.refresh.decide import decide_refresh
from spark_trickle.refresh.recommend import Advice, recommend_mode
from spark_trickle.refresh.refresh import read_facts
from spark_trickle.txn.work import Work, now

RECENT, CURRENT, TOTAL = "15 minutes", "now", "since start"  # what a figure is about
_LATEST = 40  # refreshes whose sizes tell what changes are usual

_HISTORY = {
    "started": "timestamp",
    "action": "string",
    "reason": "string",
    "rows_inserted": "long",
    "rows_deleted": "long",
    "delta_rows": "long",
    "snapshot_id": "long",
    "duration_ms": "double",
    "initiated_by": "string",
    "apply": "string",
    "phases": "string",
    "error": "string",
}


def refresh_history(work: Work, table: Table, most: int | None = None) -> Answer:
    """The refreshes of a stream table, newest first."""
    with open_reader(work.place.warehouse.engine) as connection:
        found = reports.read_refreshes(connection, table.id, most)
    return Answer(_HISTORY, [_make_history_row(p) for p in found])


def _make_history_row(p: Past) -> tuple[object, ...]:
    return (
        p.started,
        p.action,
        p.reason,
        p.rows_inserted,
        p.rows_deleted,
        p.delta_rows,
        p.snapshot_id,
        p.duration_ms,
        p.initiated_by,
        p.apply,
        json.dumps(p.phases),
        p.error,
    )


def refresh_timeline(work: Work, most: int = 50) -> Answer:
    """The last refreshes of all stream tables, newest first."""
    with open_reader(work.place.warehouse.engine) as connection:
        found = reports.read_refreshes(connection, most=most)
    names = _stream_names(work)
    rows = [(names.get(p.table_id, str(p.table_id)), *_make_history_row(p)) for p in found]
    return Answer({"name": "string", **_HISTORY}, rows)


def refresh_stats(work: Work) -> Answer:
    """How often each stream table was refreshed, how, and how long it took."""
    with open_reader(work.place.warehouse.engine) as connection:
        found = reports.read_refreshes(connection)
    rows = []
    for i, name in sorted(_stream_names(work).items(), key=lambda pair: pair[1]):
        mine = [p for p in found if p.table_id == i]
        good = [p for p in mine if p.error is None]
        took = [p.duration_ms for p in good if p.duration_ms is not None]
        differential = [p.duration_ms for p in good if p.action == "DIFFERENTIAL" and p.duration_ms]
        full = [
            p.duration_ms - p.phases.get(GIVEN_UP, 0.0)
            for p in good
            if p.action in ("FULL", "REINITIALIZE") and p.duration_ms
        ]
        speedup = _compute_mean(full) / _compute_mean(differential) if full and differential else None
        rows.append(
            (
                name,
                len(good),
                len(differential),
                len(full),
                len(mine) - len(good),
                sum(p.rows_inserted for p in good),
                sum(p.rows_deleted for p in good),
                _compute_mean(took) if took else None,
                find_quantile(took, 0.95),
                find_quantile(took, 0.99),
                speedup,
            )
        )
    columns = {
        "name": "string",
        "refreshes": "long",
        "differential": "long",
        "full": "long",
        "errors": "long",
        "rows_inserted": "long",
        "rows_deleted": "long",
        "avg_ms": "double",
        "p95_ms": "double",
        "p99_ms": "double",
        "full_over_differential": "double",
    }
    return Answer(columns, rows)


def _compute_mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _stream_names(work: Work) -> dict[int, str]:
    return {t.id: t.full_name for t in work.catalog.tables() if t.stream is not None}


def metrics_summary(work: Work) -> Answer:
    """The figures that `/metrics` also shows: for the last 15 minutes, for now, or since the start."""
    since = now() - timedelta(minutes=15)
    with open_reader(work.place.warehouse.engine) as connection:
        found = reports.read_refreshes(connection, since=since)
        snapshots = reports.count_snapshots(connection)
        suspended = sum(s.status == "SUSPENDED" for s in states.all_states(connection).values())
    took = [p.duration_ms for p in found if p.duration_ms is not None]
    seen = [p.waited_ms + (p.duration_ms or 0.0) for p in found if p.waited_ms is not None]
    recent: list[tuple[str, float | None]] = [
        ("refreshes", float(len(found))),
        ("failures", float(sum(p.error is not None for p in found))),
        ("differential", float(sum(p.action == "DIFFERENTIAL" for p in found))),
        ("full", float(sum(p.action == "FULL" for p in found))),
        ("rows_changed", float(sum(p.rows_inserted + p.rows_deleted for p in found))),
    ]
    for share, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99")):
        recent.append((f"refresh_ms_{name}", find_quantile(took, share)))
        recent.append((f"commit_to_visible_ms_{name}", find_quantile(seen, share)))
    current = [
        ("stream_tables", float(len(_stream_names(work)))),
        ("suspended", float(suspended)),
        ("snapshots", float(snapshots)),
        ("index_bytes", float(work.place.index.bytes)),
    ]
    rows: list[tuple[str, float | None, str]] = [(*figure, RECENT) for figure in recent]
    rows += [(*figure, CURRENT) for figure in current]
    rows += [(*figure, TOTAL) for figure in _read_totals(work).items()]
    return Answer({"metric": "string", "value": "double", "period": "string"}, rows)


def _read_totals(work: Work) -> dict[str, float]:
    """What only grows, since the process began."""
    views, place = work.place.views, work.place
    return {
        "cache_hits": float(views.shared.total()),
        "cache_misses": float(views.made.total()),
        "row_cache_hits": float(place.storage.recent.hits),
        "row_cache_misses": float(place.storage.recent.misses),
        "index_lookups": float(place.index.lookups),
        "change_scans": float(views.made["change"]),
        "change_scans_shared": float(views.shared["change"]),
        **place.warehouse.tally.totals(),
    }


def diagnose_errors(work: Work, table: Table) -> Answer:
    """The last failures of a stream table: who has to act, how, and whether the cause is gone."""
    with open_reader(work.place.warehouse.engine) as connection:
        found = reports.read_refreshes(connection, table.id)
        state = states.read_state(connection, table.id)
    succeeded = max((p.started for p in found if p.error is None), default=None)
    rows = []
    for p in [p for p in found if p.error is not None][:20]:
        assert p.error is not None
        kind, retryable, advice = _diagnose_error(p.error)
        gone = succeeded is not None and succeeded > p.started
        rows.append((p.started, kind, retryable, p.error, advice, gone))
    columns = {
        "failed": "timestamp",
        "error_class": "string",
        "retryable": "boolean",
        "error": "string",
        "suggested_fix": "string",
        "cause_is_gone": "boolean",
    }
    if not rows and state.error:
        kind, retryable, advice = _diagnose_error(state.error)
        rows.append((now(), kind, retryable, state.error, advice, False))
    return Answer(columns, rows)


_KINDS = (
    (("CONFLICT", "CATALOG_BUSY"), "transient", True, "The scheduler retries it automatically."),
    (
        ("SOURCE_LOST", "COLUMN_NOT_FOUND", "TABLE_NOT_FOUND"),
        "schema",
        False,
        "Restore the source, or change the query with ALTER STREAM TABLE … AS.",
    ),
    (("FUSE_BLOWN",), "user", False, "Check what changed, then call reset_fuse()."),
    (("INTERNAL",), "bug", False, "Please report it; REFRESH MODE FULL may help in the meantime."),
    (
        ("WAREHOUSE_UNAVAILABLE", "DAMAGED_FILE"),
        "environment",
        True,
        "Check the disk, permissions and backups.",
    ),
)


def _diagnose_error(error: str) -> tuple[str, bool, str]:
    code = error.removeprefix("[").partition("]")[0]
    for codes, kind, retryable, advice in _KINDS:
        if code in codes:
            return kind, retryable, advice
    return "user", False, "Correct the rows or the query that the message names, then call resume()."


# --- advice ----------------------------------------------------------------------------------------


def auto_threshold(work: Work, table: Table) -> Answer:
    """When AUTO switches from differential to full: the settings, and what earlier refreshes show."""
    settings = work.place.settings
    with open_reader(work.place.warehouse.engine) as connection:
        known = states.load_experience(connection, table.id)
    rows = work_rows(work, table)
    by_share = int(rows * settings.differential_max_change_ratio)
    learned = estimate_cost(known, max(by_share, 1), rows)
    found: list[tuple[str, str]] = [
        ("differential_max_change_ratio", f"{settings.differential_max_change_ratio:g}"),
        ("differential_free_rows", str(settings.differential_free_rows)),
        ("source rows", str(rows)),
        ("threshold rows", str(max(settings.differential_free_rows, by_share))),
        ("learned", learned.text),
    ]
    return Answer({"property": "string", "value": "string"}, found)


def work_rows(work: Work, table: Table) -> int:
    assert table.stream is not None
    known = (work.catalog.table_by_id(s.table_id) for s in table.stream.sources)
    return sum(work.row_count(t) for t in known if t is not None)


def explain_refresh_cost(work: Work, table: Table) -> Answer:
    """What a refresh would cost now: changed rows, cost class of each node, and an estimate."""
    assert table.stream is not None
    with open_reader(work.place.warehouse.engine) as connection:
        state = states.read_state(connection, table.id)
    facts = read_facts(work, table, state.knows)
    decision = decide_refresh(facts, work.place.settings)
    rows: list[tuple[str, str]] = [
        ("next refresh", decision.action.value),
        ("reason", decision.reason),
        ("changed rows", str(facts.changed_rows)),
        ("source rows", str(facts.source_rows or work_rows(work, table))),
    ]
    rows += [(f"{node.name} cost", find_cost(node.plan).value) for node in nodes_of(table.stream.plan)]
    if facts.changed_rows:
        rows.append(("estimate", estimate_cost(facts.known, facts.changed_rows, facts.source_rows).text))
    return Answer({"property": "string", "value": "string"}, rows)


def recommend_refresh_mode(work: Work, table: Table | None = None) -> Answer:
    """The refresh mode that fits the refreshes so far, for one stream table or for all, and why."""
    tables = [table] if table is not None else [t for t in work.catalog.tables() if t.stream is not None]
    rows = []
    for t in sorted(tables, key=lambda t: t.full_name):
        assert t.stream is not None
        advice = _recommend_mode(work, t)
        rows.append((t.full_name, t.stream.mode.value, advice.mode.value, advice.confidence, advice.reason))
    columns = {
        "name": "string",
        "current_mode": "string",
        "recommended_mode": "string",
        "confidence": "string",
        "reason": "string",
    }
    return Answer(columns, rows)


def _recommend_mode(work: Work, table: Table) -> Advice:
    stream = table.stream
    assert stream is not None
    with open_reader(work.place.warehouse.engine) as connection:
        known = states.load_experience(connection, table.id)
        past = reports.read_refreshes(connection, table.id, _LATEST)
    sizes = [p.delta_rows for p in past if p.error is None and p.delta_rows]
    return recommend_mode(known, sizes, work_rows(work, table), stream.moments)
