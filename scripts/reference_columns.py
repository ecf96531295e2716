"""The columns of the table functions, which a test compares with those that are."""

from __future__ import annotations

COLUMNS = {
    "alerts": "raised, event, name, message",
    "audit": "…, difference, rows",
    "auto_threshold": "property, value",
    "bulk_create": "name, snapshot",
    "change_buffer_sizes": "source, pending_files, pending_rows, pending_bytes, oldest_frontier, readers",
    "check_cdc_health": "source, check, subject, value, ok, fix",
    "dependency_tree": "depth, tree, name, kind, reads",
    "diagnose_errors": "failed, error_class, retryable, error, suggested_fix, cause_is_gone",
    "explain_query_rewrite": "position, pass, what, tree",
    "explain_refresh": "started, action, plan, position, operator, engine, rows_in, rows_out, ms, reason",
    "explain_refresh_cost": "property, value",
    "explain_refresh_mode": "property, value",
    "explain_stream_table": "property, value",
    "export_definition": "definition",
    "health_check": "check_name, severity, detail",
    "list_auxiliary_columns": "node, table_name, column_name, type, purpose",
    "list_sources": "source, kind, columns_used, rows",
    "metrics_summary": "metric, value, period",
    "published_status": (
        "stream_table, source, published_as, key, snapshot, newest_snapshot, applied_at, rows, problem"
    ),
    "recommend_refresh_mode": "name, current_mode, recommended_mode, confidence, reason",
    "refresh_history": (
        "started, action, reason, rows_inserted, rows_deleted, delta_rows, snapshot_id, "
        "duration_ms, initiated_by, apply, phases, error"
    ),
    "refresh_stats": (
        "name, refreshes, differential, full, errors, rows_inserted, rows_deleted, avg_ms, p95_ms, "
        "p99_ms, full_over_differential"
    ),
    "refresh_timeline": (
        "name, started, action, reason, rows_inserted, rows_deleted, delta_rows, snapshot_id, "
        "duration_ms, initiated_by, apply, phases, error"
    ),
    "scheduler_diagnostics": "property, value",
    "slot_health": "source, check, subject, value, ok, fix",
    "source_status": (
        "source, mirror, source_table, status, reason, capture, cdc_mode, pending_rows, "
        "pending_bytes, new_columns, last_sync, last_error"
    ),
    "status": (
        "name, status, refresh_mode, effective_mode, schedule, tier, frontier, staleness_seconds, "
        "last_refresh, last_action, last_duration_ms, consecutive_errors, error, waiting_for"
    ),
    "stream_tables": "schema_name, table_name, refresh_mode, schedule, status, frontier, error, query",
    "suggest_tiers": (
        "name, tier, suggested_tier, reads, last_read, seconds_between_reads, schedule_seconds, reason"
    ),
    "trigger_inventory": "source, check, subject, value, ok, fix",
    "validate_query": "check_name, result, detail",
    "verify": "severity, table_name, path, detail",
    "wal_source_status": (
        "source, capture, cdc_mode, blocked_reason, slot, publication, position, lag_bytes, "
        "lag_seconds, unlanded_records, slot_problem, transitions, last_error"
    ),
    "watermark_status": "source, watermark, snapshot_id, advanced, watermark_group, tolerance_seconds",
    "worker_pool_status": "name, session_id, started, workers",
}
