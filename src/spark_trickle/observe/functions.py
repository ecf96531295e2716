"""The table functions on status and history by name; SQL and the command line both call these."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spark_trickle.errors import UnsupportedError, suggest_closest
from spark_trickle.observe import definitions, executed, files, refreshes, sources, status
from spark_trickle.observe.answer import Answer, TableFunction
from spark_trickle.spark.frames import Frame, frame_of
from spark_trickle.txn.functions import Argument
from spark_trickle.txn.work import Work

ANSWERS: dict[str, TableFunction] = {
    "alerts": TableFunction(status.alerts, 0, 1),
    "auto_threshold": TableFunction(refreshes.auto_threshold, 1, 1, of_stream=True),
    "bulk_create": TableFunction(definitions.bulk_create, 1, 1),
    "check_cdc_health": TableFunction(sources.check_cdc_health),
    "change_buffer_sizes": TableFunction(status.change_buffer_sizes),
    "dependency_tree": TableFunction(status.dependency_tree),
    "diagnose_errors": TableFunction(refreshes.diagnose_errors, 1, 1, of_stream=True),
    "explain_refresh": TableFunction(executed.explain_refresh, 1, 2, of_stream=True),
    "explain_refresh_cost": TableFunction(refreshes.explain_refresh_cost, 1, 1, of_stream=True),
    "export_definition": TableFunction(definitions.export_definition, 1, 1, of_stream=True),
    "health_check": TableFunction(status.health_check),
    "list_auxiliary_columns": TableFunction(definitions.list_auxiliary_columns, 1, 1, of_stream=True),
    "list_sources": TableFunction(status.list_sources, 1, 1, of_stream=True),
    "metrics_summary": TableFunction(refreshes.metrics_summary),
    "published_status": TableFunction(sources.published_status),
    "recommend_refresh_mode": TableFunction(refreshes.recommend_refresh_mode, 0, 1, of_stream=True),
    "refresh_history": TableFunction(refreshes.refresh_history, 1, 2, of_stream=True),
    "refresh_stats": TableFunction(refreshes.refresh_stats),
    "refresh_timeline": TableFunction(refreshes.refresh_timeline, 0, 1),
    "scheduler_diagnostics": TableFunction(status.scheduler_diagnostics),
    "slot_health": TableFunction(sources.slot_health),
    "source_status": TableFunction(sources.source_status),
    "status": TableFunction(status.status),
    "suggest_tiers": TableFunction(status.suggest_tiers),
    "trigger_inventory": TableFunction(sources.trigger_inventory),
    "verify": TableFunction(files.report_damage, 0, 1),
    "wal_source_status": TableFunction(sources.wal_source_status),
    "watermark_status": TableFunction(status.watermark_status),
    "worker_pool_status": TableFunction(status.worker_pool_status),
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
