"""The table functions on status and history by name; SQL and the command line both call these."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spark_trickle.errors import UnsupportedError, suggest_closest
from spark_trickle.observe import definitions, executed, files, refreshes, sources, status
from spark_trickle.observe.answer import Answer, Function
from spark_trickle.spark.frames import Frame, frame_of
from spark_trickle.txn.functions import Argument
from spark_trickle.txn.work import Work

ANSWERS: dict[str, Function] = {
    "alerts": Function(status.alerts, 0, 1),
    "auto_threshold": Function(refreshes.auto_threshold, 1, 1, of_stream=True),
    "bulk_create": Function(definitions.bulk_create, 1, 1),
    "check_cdc_health": Function(sources.check_cdc_health),
    "change_buffer_sizes": Function(status.change_buffer_sizes),
    "dependency_tree": Function(status.dependency_tree),
    "diagnose_errors": Function(refreshes.diagnose_errors, 1, 1, of_stream=True),
    "explain_refresh": Function(executed.explain_refresh, 1, 2, of_stream=True),
    "explain_refresh_cost": Function(refreshes.explain_refresh_cost, 1, 1, of_stream=True),
    "export_definition": Function(definitions.export_definition, 1, 1, of_stream=True),
    "health_check": Function(status.health_check),
    "list_auxiliary_columns": Function(definitions.list_auxiliary_columns, 1, 1, of_stream=True),
    "list_sources": Function(status.list_sources, 1, 1, of_stream=True),
    "metrics_summary": Function(refreshes.metrics_summary),
    "published_status": Function(sources.published_status),
    "recommend_refresh_mode": Function(refreshes.recommend_refresh_mode, 0, 1, of_stream=True),
    "refresh_history": Function(refreshes.refresh_history, 1, 2, of_stream=True),
    "refresh_stats": Function(refreshes.refresh_stats),
    "refresh_timeline": Function(refreshes.refresh_timeline, 0, 1),
    "scheduler_diagnostics": Function(status.scheduler_diagnostics),
    "slot_health": Function(sources.slot_health),
    "source_status": Function(sources.source_status),
    "status": Function(status.status),
    "suggest_tiers": Function(status.suggest_tiers),
    "trigger_inventory": Function(sources.trigger_inventory),
    "verify": Function(files.report_damage, 0, 1),
    "wal_source_status": Function(sources.wal_source_status),
    "watermark_status": Function(status.watermark_status),
    "worker_pool_status": Function(status.worker_pool_status),
}


def answer_function(work: Work, name: str, *arguments: Argument) -> Answer:
    if name not in ANSWERS:
        raise UnsupportedError(
            f"the table function trickle.{name}", suggest_closest(name, tuple(ANSWERS), "table functions")
        )
    return ANSWERS[name].call(work, name, arguments)


def _make_frame_function(name: str) -> Callable[[Work, Sequence[Argument]], Frame]:
    def run_function(work: Work, arguments: Sequence[Argument]) -> Frame:
        found = ANSWERS[name].call(work, name, arguments)
        return frame_of(work.place.spark, found.columns, found.rows)

    return run_function


FUNCTIONS = {name: _make_frame_function(name) for name in ANSWERS}
