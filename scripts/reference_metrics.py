"""The metrics and the alerts of a scheduler -> their page."""

from __future__ import annotations

import json
from collections.abc import Iterable

from prometheus_client.core import Metric
from reference_text import code, table

from spark_trickle.model.stream import Action, RefreshReport
from spark_trickle.observe.answer import Answer
from spark_trickle.observe.metrics import CURRENT_FIGURES, EVENTS, TOTAL_FIGURES, Metrics
from spark_trickle.observe.refreshes import CURRENT, RECENT, TOTAL
from spark_trickle.sources.report import SyncReport


def metrics_page() -> str:
    rows = [[code(_write_name(f)), f.type, _list_labels(f), f.documentation] for f in _collect_samples()]
    alerts = [[code(name), meaning] for name, meaning in sorted(EVENTS.items())]
    return f"""
# Metrics and alerts

## Metrics

`trickle run --metrics-port 9200` serves them at `/metrics`, for Prometheus. Alert rules and a dashboard
are in [ops](../../ops/README.md); `trickle.metrics_summary()` has the figures without Prometheus.

{table(["metric", "type", "labels", "meaning"], rows)}

## Alerts

`trickle.alerts()` lists the last ones; `tr.scheduler(on_alert=…)` and `trickle run --webhook URL` receive
each of them. [Settings](settings.md) explains the settings that are named here.

{table(["event", "when"], alerts)}
"""


# --- one sample of each, since a metric tells its labels only with a value ----------------------------------

_STATUS = {
    "name": "s",
    "status": "ACTIVE",
    "staleness_seconds": 0,
    "consecutive_errors": 0,
    "waiting_for": "due",
}
_LOG = {
    "source": "s",
    "transitions": json.dumps([{"after": "TRIGGER", "reason": "x"}]),
    "unlanded_records": 0,
    "lag_bytes": 0,
    "lag_seconds": 0,
}
_FIGURES = [
    {"metric": "refreshes", "value": 0.0, "period": RECENT},
    *({"metric": name, "value": 0.0, "period": CURRENT} for name in CURRENT_FIGURES),
    *({"metric": name, "value": 0.0, "period": TOTAL} for name in TOTAL_FIGURES),
]
_ANSWERS = {
    "status": [_STATUS],
    "change_buffer_sizes": [{"source": "t", "pending_rows": 0, "pending_bytes": 0}],
    "source_status": [{"mirror": "m", "pending_rows": 0}],
    "wal_source_status": [_LOG],
    "metrics_summary": _FIGURES,
}


def _collect_samples() -> Iterable[Metric]:
    metrics = Metrics(_answer_sample)
    metrics.observe(RefreshReport("s", Action.FULL, ""))
    metrics.observe_sync(SyncReport("s", "TRIGGER"))
    return sorted(metrics.registry.collect(), key=lambda family: family.name)


def _answer_sample(function: str) -> Answer:
    rows = _ANSWERS[function]
    return Answer(dict.fromkeys(rows[0], "string"), [tuple(row.values()) for row in rows])


def _write_name(family: Metric) -> str:
    """As Prometheus stores it."""
    return f"{family.name}_total" if family.type == "counter" else family.name


def _list_labels(family: Metric) -> str:
    names = {name: None for sample in family.samples for name in sample.labels if name != "le"}
    return ", ".join(code(name) for name in names)
