"""What ops/ holds fits the metrics there are: names, labels and figures, and promtool agrees with the rules."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from spark_trickle.lake.cache.column_index import ColumnIndex
from spark_trickle.lake.warehouse import open_warehouse
from spark_trickle.model.stream import Action, RefreshReport
from spark_trickle.observe import functions as observe
from spark_trickle.observe.answer import Answer
from spark_trickle.observe.metrics import Metrics
from spark_trickle.observe.refreshes import CURRENT, RECENT, TOTAL
from spark_trickle.settings import Settings
from spark_trickle.sources.report import SyncReport
from spark_trickle.spark.view_cache import ViewCache
from spark_trickle.txn.work import Place, begin_work
from tests.fetched import KEPT, fetched

ROOT = Path(__file__).parents[3]
OPS = ROOT / "ops"
RULES, DASHBOARD = OPS / "alerts.yml", OPS / "dashboard.json"
_METRIC = re.compile(r"\btrickle_\w+")
_SELECTED = re.compile(r"\b(trickle_\w+)\{([^{}]*)\}")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"')
_BY = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")
_LEGEND = re.compile(r"\{\{(\w+)\}\}")
FROM_PROMETHEUS = {"job", "instance", "warehouse"}  # the last one as ops/README.md sets it

MOMENT = datetime(2026, 1, 31, 12, tzinfo=UTC)
MOVED = "the slot was moved to {}, but the mirror is at {}"
HISTORY = json.dumps(
    [
        {"after": "TRIGGER", "reason": MOVED.format("0/1A2B", "0/99")},
        {"after": "WAL", "reason": "changes are now read from the write-ahead log"},
        {"after": "TRIGGER", "reason": MOVED.format("1/FF", "0/1")},
    ]
)
ANSWERS = {
    "status": Answer(
        {
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
        },
        [("main.s", "ACTIVE", "AUTO", "FULL", "30s", "hot", 7, 1.5, MOMENT, "FULL", 90.0, 0, None, "due")],
    ),
    "change_buffer_sizes": Answer(
        {
            "source": "string",
            "pending_files": "long",
            "pending_rows": "long",
            "pending_bytes": "long",
            "oldest_frontier": "long",
            "readers": "string",
        },
        [("main.t", 1, 10, 1000, 7, "main.s")],
    ),
    "source_status": Answer(
        {
            "source": "string",
            "mirror": "string",
            "source_table": "string",
            "status": "string",
            "reason": "string",
            "capture": "string",
            "cdc_mode": "string",
            "pending_rows": "long",
            "pending_bytes": "long",
            "new_columns": "string",
            "last_sync": "string",
            "last_error": "string",
        },
        [("erp", "main.t", "erp.public.t", "ACTIVE", "", "TRIGGER", "auto", 4, 8192, "", None, "")],
    ),
    "wal_source_status": Answer(
        {
            "source": "string",
            "capture": "string",
            "cdc_mode": "string",
            "blocked_reason": "string",
            "slot": "string",
            "publication": "string",
            "position": "string",
            "lag_bytes": "long",
            "lag_seconds": "double",
            "unlanded_records": "long",
            "slot_problem": "string",
            "transitions": "string",
            "last_error": "string",
        },
        [("erp", "WAL", "auto", "", "s", "p", "0/1", 512, 0.0, 3, "", HISTORY, "")],
    ),
    "metrics_summary": Answer(
        {"metric": "string", "value": "double", "period": "string"},
        [
            ("refreshes", 1.0, RECENT),
            ("refresh_ms_p99", None, RECENT),
            ("stream_tables", 1.0, CURRENT),
            ("cache_hits", 5.0, TOTAL),
            ("cache_misses", 1.0, TOTAL),
        ],
    ),
}


@pytest.fixture(scope="module")
def metrics() -> Metrics:
    made = Metrics(lambda name: ANSWERS[name])
    made.observe(RefreshReport("main.s", Action.DIFFERENTIAL, "", 2, 1, 3, 120.0))
    made.observe_sync(SyncReport("erp", "WAL", 3, 1))
    made.count_alert("stale_data")
    return made


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Answer]]:
    """What the functions themselves answer, on an empty warehouse; they need no Spark."""
    warehouse = open_warehouse(tmp_path_factory.mktemp("ops") / "warehouse", None, 5.0)
    nothing = cast(Any, _Nothing())
    shelf = ColumnIndex(warehouse.storage, 0)
    place = Place(warehouse, nothing, Settings(), "main", nothing, nothing, ViewCache(), shelf)
    yield {name: observe.answer_function(begin_work(place), name) for name in ANSWERS}
    warehouse.engine.dispose()


class _Nothing:
    def cover(self, *_: object) -> None:
        """A lease that nobody needs: no file is read."""


def expressions() -> list[str]:
    """Every query of the rules and the dashboard."""
    found = re.findall(r"expr: (?:\|\n((?: {10,}.*\n)+)|(.+)\n)", RULES.read_text(encoding="utf-8"))
    return [block or line for block, line in found] + dashboard_expressions()


def dashboard() -> dict[str, Any]:
    return cast(dict[str, Any], json.loads(DASHBOARD.read_text(encoding="utf-8")))


def dashboard_expressions() -> list[str]:
    return [t["expr"] for p in dashboard()["panels"] for t in p.get("targets", ())]


def matchers(label: str) -> set[str]:
    """The values that queries ask of a label."""
    pairs = [m for e in expressions() for _, s in _SELECTED.findall(e) for m in _MATCHER.findall(s)]
    return {v for name, value in pairs if name == label for v in value.split("|")}


# --- what there is ---------------------------------------------------------------------------------


def test_the_fake_answers_look_like_the_real_ones(real: dict[str, Answer]) -> None:
    assert {name: a.columns for name, a in real.items()} == {n: a.columns for n, a in ANSWERS.items()}


def test_metrics_take_the_real_answers(real: dict[str, Answer]) -> None:
    names = {family.name for family in Metrics(lambda name: real[name]).registry.collect()}
    assert {"trickle_staleness_seconds", "trickle_pending_rows", "trickle_last_15_minutes"} <= names


def test_totals_are_counters_and_not_figures_of_15_minutes(real: dict[str, Answer]) -> None:
    families = {family.name: family for family in Metrics(lambda name: real[name]).registry.collect()}
    totals = {row["metric"] for row in real["metrics_summary"].dicts() if row["period"] == TOTAL}
    assert totals >= {
        "cache_hits",
        "worker_idle_ms",
        "immediate_waits",
        "immediate_wait_ms",
        "commit_retries",
    }
    assert {families[f"trickle_{name}"].type for name in totals} == {"counter"}
    assert families["trickle_stream_tables"].type == "gauge"
    shown = {s.labels["figure"] for s in families["trickle_last_15_minutes"].samples}
    assert shown & (totals | {"stream_tables", "snapshots", "index_bytes"}) == set()


def test_every_query_is_found() -> None:
    rules = RULES.read_text(encoding="utf-8").count("- alert:")
    assert len(expressions()) == rules + len(dashboard_expressions())
    assert rules >= 8


def test_metrics_exist(metrics: Metrics) -> None:
    exposed = {sample.name for family in metrics.registry.collect() for sample in family.samples}
    for file in (RULES, DASHBOARD):
        named = set(_METRIC.findall(file.read_text(encoding="utf-8")))
        assert named - exposed == set(), file.name
        assert named


def test_labels_exist(metrics: Metrics) -> None:
    samples = [s for family in metrics.registry.collect() for s in family.samples]
    for expression in expressions():
        for metric, selector in _SELECTED.findall(expression):
            exposed = {label for s in samples if s.name == metric for label in s.labels}
            assert {label for label, _ in _MATCHER.findall(selector)} <= exposed | FROM_PROMETHEUS, expression
    exposed = {label for s in samples for label in s.labels}
    used = {label.strip() for e in expressions() for by in _BY.findall(e) for label in by.split(",")}
    used |= set(_LEGEND.findall(DASHBOARD.read_text(encoding="utf-8")))
    assert used <= exposed | FROM_PROMETHEUS


def test_fallbacks_are_counted_by_their_reason(metrics: Metrics) -> None:
    """Positions and names are left out: each of them would be a series of its own."""
    reason = "the slot was moved to …, but the mirror is at …"
    found = metrics.registry.get_sample_value
    assert found("trickle_source_fallbacks", {"source": "erp", "reason": reason}) == 2
    assert found("trickle_source_unlanded_records", {"source": "erp"}) == 3


def test_figures_and_states_exist(real: dict[str, Answer]) -> None:
    recent = [row for row in real["metrics_summary"].dicts() if row["period"] == RECENT]
    assert matchers("figure") <= {row["metric"] for row in recent}
    assert matchers("status") == {"SUSPENDED", "FUSED"}


def test_panels_have_ids_and_places_of_their_own() -> None:
    panels = dashboard()["panels"]
    ids = [p["id"] for p in panels]
    assert len(set(ids)) == len(ids) > 10
    taken = [cell for p in panels for cell in _cells(p["gridPos"])]
    assert len(set(taken)) == len(taken)


def _cells(at: dict[str, int]) -> list[tuple[int, int]]:
    return [(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])]


# --- what promtool says ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def promtool() -> str:
    return fetched("ensure-promtool.sh", KEPT / "promtool")


def run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_are_valid(promtool: str) -> None:
    run(promtool, "check", "rules", RULES)


def test_rules_fire_when_they_should(promtool: str) -> None:
    run(promtool, "test", "rules", OPS / "alerts_test.yml")


def test_every_rule_is_tried_both_ways() -> None:
    """Each alert of the rules is expected at some moment of the unit tests, and at another it is not."""
    text = (OPS / "alerts_test.yml").read_text(encoding="utf-8")
    for alert in re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8")):
        assert f"alertname: {alert}\n        exp_alerts:" in text
        assert f"alertname: {alert}}}" in text


def test_queries_of_the_dashboard_are_valid(promtool: str, tmp_path: Path) -> None:
    """As recording rules, because promtool checks those."""
    plain = [e.replace("$__rate_interval", "5m") for e in dashboard_expressions()]
    rules = [{"record": f"panel:{n}", "expr": e} for n, e in enumerate(plain)]
    file = tmp_path / "dashboard.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))  # JSON is YAML
    run(promtool, "check", "rules", file)
