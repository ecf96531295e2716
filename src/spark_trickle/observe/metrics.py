"""Refreshes -> Prometheus metrics: counted as they happen, or read from the catalog when someone asks."""

from __future__ import annotations

import json
import re
from collections import Counter as Counts
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from spark_trickle.lake.catalog.tally import COUNTERS
from spark_trickle.model.stream import RefreshReport
from spark_trickle.observe.answer import Answer
from spark_trickle.observe.refreshes import RECENT, TOTAL
from spark_trickle.observe.sources import share_connections
from spark_trickle.sources.report import SyncReport

EVENTS = {
    "append_only_reverted": "A row of a source was deleted, so the option `append_only` was switched off.",
    "auto_suspended": "A stream table failed `max_consecutive_errors` times, and waits to be resumed.",
    "catalog_unavailable": "The catalog does not answer; the scheduler keeps trying.",
    "change_buffer_backpressure": "More than `buffer_alert_rows` changed rows wait, check after check.",
    "costly_definition": "A stream table was created whose refreshes are expensive.",
    "fuse_blown": "More source rows changed than the fuse of a stream table allows.",
    "orphan_recovered": "The scheduler that ran a refresh died; the refresh is due again.",
    "refresh_failed": "A refresh failed; it will be retried.",
    "publish_failed": "Published tables could not be brought up to date.",
    "resumed": "A stream table was resumed by hand.",
    "source_failed": "A sync of a source failed, and needs your attention.",
    "source_needs_help": "Mirrors of a source stopped, and need your attention.",
    "source_resynced": "A mirror had lost changes, so its table was copied again.",
    "source_unavailable": "A source does not answer; the scheduler keeps trying.",
    "stale_data": "A stream table has lagged behind its sources for more than `stale_alert_seconds`.",
    "vacuum_failed": "The regular VACUUM of the scheduler failed.",
}
_UNIQUE = re.compile(r'"[^"]*"|[0-9A-F]+/[0-9A-F]+|\d+')
_SECONDS = (0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


@dataclass(frozen=True)
class Server:
    port: int
    close: Callable[[], None]


class Metrics:
    """`ask` answers table functions, so that metrics and SQL never disagree."""

    def __init__(self, ask: Callable[[str], Answer]) -> None:
        self.registry = CollectorRegistry()
        self._duration = Histogram(
            "trickle_refresh_duration_seconds",
            "Duration of refreshes.",
            ("table", "action"),
            registry=self.registry,
            buckets=_SECONDS,
        )
        self._rows = Counter(
            "trickle_rows",
            "Rows that refreshes inserted into and deleted from stream tables.",
            ("table", "change"),
            registry=self.registry,
        )
        self._read = Counter(
            "trickle_source_rows",
            "Changed source rows that refreshes read.",
            ("table",),
            registry=self.registry,
        )
        self._sync = Histogram(
            "trickle_source_sync_seconds",
            "Duration of a sync: polling a source and committing its changes.",
            ("source", "capture"),
            registry=self.registry,
            buckets=_SECONDS,
        )
        self._landed = Counter(
            "trickle_source_landed_rows",
            "Rows inserted into and deleted from mirrors.",
            ("source", "change"),
            registry=self.registry,
        )
        self._alerts = Counter("trickle_alerts", "Alerts raised.", ("event",), registry=self.registry)
        for event in EVENTS:
            self._alerts.labels(event)  # a counter that is there before its first event
        self.registry.register(_Standing(ask))

    def observe(self, report: RefreshReport) -> None:
        self._duration.labels(report.name, report.action).observe(report.duration_ms / 1000)
        self._rows.labels(report.name, "inserted").inc(report.rows_inserted)
        self._rows.labels(report.name, "deleted").inc(report.rows_deleted)
        self._read.labels(report.name).inc(report.delta_rows)

    def observe_sync(self, report: SyncReport) -> None:
        self._sync.labels(report.source, report.capture).observe(report.duration_ms / 1000)
        self._landed.labels(report.source, "inserted").inc(report.rows_inserted)
        self._landed.labels(report.source, "deleted").inc(report.rows_deleted)

    def count_alert(self, event: str) -> None:
        self._alerts.labels(event).inc()

    def serve(self, port: int, address: str = "127.0.0.1") -> Server:
        server, thread = start_http_server(port, addr=address, registry=self.registry)

        def close() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return Server(server.server_port, close)


CURRENT_FIGURES = {
    "stream_tables": "Number of stream tables.",
    "suspended": "Number of suspended stream tables.",
    "snapshots": "Number of snapshots.",
    "index_bytes": "Memory of the column index, in bytes.",
}
TOTAL_FIGURES = {
    "index_lookups": "Lookups that the column index answered.",
    "cache_hits": "Views of unchanged inputs found in the cache.",
    "cache_misses": "Views of inputs that were not in the cache.",
    "row_cache_hits": "Small files whose rows were found in the cache.",
    "row_cache_misses": "Small files whose rows were not in the cache.",
    "change_scans": "Reads of source changes by refreshes.",
    "change_scans_shared": "Reads of source changes that another refresh had already done.",
    **COUNTERS,
}


def _parse_fallbacks(transitions: str) -> Counts[str]:
    """Reasons and how often each was one, without the names and positions that make each of them unique."""
    reasons = (t["reason"] for t in json.loads(transitions) if t["after"] == "TRIGGER")
    return Counts(_UNIQUE.sub("…", reason) for reason in reasons)


class _Standing(Collector):
    """What the catalog says at the moment of the question."""

    def __init__(self, ask: Callable[[str], Answer]) -> None:
        self._ask = ask

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        standing = self._ask("status").dicts()
        stale = GaugeMetricFamily(
            "trickle_staleness_seconds",
            "How long a stream table has lagged behind its sources.",
            labels=("table",),
        )
        state = GaugeMetricFamily(
            "trickle_stream_table_status",
            "1 for the current status of a stream table.",
            labels=("table", "status"),
        )
        errors = GaugeMetricFamily(
            "trickle_consecutive_errors", "Consecutive failures of a stream table.", labels=("table",)
        )
        for row in standing:
            stale.add_metric((row["name"],), row["staleness_seconds"])
            state.add_metric((row["name"], row["status"]), 1)
            errors.add_metric((row["name"],), row["consecutive_errors"])
        due = GaugeMetricFamily("trickle_queue_depth", "Stream tables that are due and wait for a worker.")
        due.add_metric((), sum(row["waiting_for"] == "due" for row in standing))
        running = GaugeMetricFamily("trickle_running_refreshes", "Refreshes that are running.")
        running.add_metric((), sum(row["waiting_for"] == "running" for row in standing))
        standing_metrics = (stale, state, errors, due, running)
        yield from (
            *standing_metrics,
            *self._collect_pending(),
            *self._collect_summary(),
            *self._collect_sources(),
        )

    def _collect_pending(self) -> Iterable[Metric]:
        """One catalog query for all sources."""
        rows = GaugeMetricFamily(
            "trickle_pending_rows",
            "Changed rows that some stream table has not read yet.",
            labels=("source",),
        )
        size = GaugeMetricFamily(
            "trickle_pending_bytes",
            "Bytes of changes that some stream table has not read yet.",
            labels=("source",),
        )
        for row in self._ask("change_buffer_sizes").dicts():
            rows.add_metric((row["source"],), row["pending_rows"])
            size.add_metric((row["source"],), row["pending_bytes"])
        return rows, size

    def _collect_sources(self) -> Iterable[Metric]:
        """What waits in sources, and how far behind their logs are read."""
        waiting = GaugeMetricFamily(
            "trickle_source_pending_rows", "Changes that wait in a source.", labels=("mirror",)
        )
        lag = GaugeMetricFamily(
            "trickle_source_lag_bytes",
            "Bytes of write-ahead log that have not been read yet.",
            labels=("source",),
        )
        seconds = GaugeMetricFamily(
            "trickle_source_lag_seconds",
            "How long reading the write-ahead log has lagged.",
            labels=("source",),
        )
        unlanded = GaugeMetricFamily(
            "trickle_source_unlanded_records",
            "Records of the write-ahead log that have been read but not yet committed to the warehouse.",
            labels=("source",),
        )
        fallen = GaugeMetricFamily(
            "trickle_source_fallbacks",
            "How often a source fell back to triggers, and why.",
            labels=("source", "reason"),
        )
        with share_connections():
            mirrors, logs = self._ask("source_status"), self._ask("wal_source_status")
        for row in mirrors.dicts():
            if row["mirror"] is not None and row["pending_rows"] is not None:
                waiting.add_metric((row["mirror"],), row["pending_rows"])
        for row in logs.dicts():
            for reason, times in _parse_fallbacks(row["transitions"]).items():
                fallen.add_metric((row["source"], reason), times)
            unlanded.add_metric((row["source"],), row["unlanded_records"])
            if row["lag_bytes"] is not None:
                lag.add_metric((row["source"],), row["lag_bytes"])
            if row["lag_seconds"] is not None:
                seconds.add_metric((row["source"],), row["lag_seconds"])
        return waiting, lag, seconds, unlanded, fallen

    def _collect_summary(self) -> Iterable[Metric]:
        found = GaugeMetricFamily(
            "trickle_last_15_minutes", "Figures of the last 15 minutes.", labels=("figure",)
        )
        rows = [row for row in self._ask("metrics_summary").dicts() if row["value"] is not None]
        for row in rows:
            if row["period"] == RECENT:
                found.add_metric((row["metric"],), row["value"])
        return (
            found,
            *(
                _make_metric(row["metric"], row["value"], row["period"])
                for row in rows
                if row["period"] != RECENT
            ),
        )


def _make_metric(name: str, value: float, period: str) -> Metric:
    """A total is a counter, what is true now is a gauge."""
    if period == TOTAL:
        return CounterMetricFamily(f"trickle_{name}", TOTAL_FIGURES[name], value=value)
    return GaugeMetricFamily(f"trickle_{name}", CURRENT_FIGURES[name], value=value)
