"""The scheduler on a real warehouse: due, gated, failing, suspended, resumed, taken over."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from spark_trickle import connect
from spark_trickle.errors import FuseBlownError, InvalidDefinitionError, QueryError, SettingError
from spark_trickle.lake.catalog import scheduling
from spark_trickle.model.stream import Action
from spark_trickle.session import Trickle
from spark_trickle.txn.work import now

FAST = {"min_schedule_seconds": 0.01, "default_schedule_seconds": 0.01, "auto_backoff": False}


@pytest.fixture
def tr(tmp_path: Path) -> Iterator[Trickle]:
    with connect(tmp_path / "warehouse", settings=FAST) as made:
        made.sql("CREATE TABLE a (id INT, v INT)")
        made.sql("INSERT INTO a VALUES (1, 10), (2, 20)")
        made.sql("CREATE STREAM TABLE s SCHEDULE '10ms' AS SELECT sum(v) AS v FROM a")
        made.sql("CREATE STREAM TABLE t AS SELECT v + 1 AS w FROM s")
        yield made


def value(tr: Trickle, query: str) -> object:
    return tr.sql(query).collect()[0][0]


def events(tr: Trickle) -> list[str]:
    return [row["event"] for row in tr.answer("alerts").dicts()]


def waiting(tr: Trickle, name: str) -> str:
    return str(next(r["waiting_for"] for r in tr.answer("status").dicts() if r["name"] == name))


def id_of(tr: Trickle, name: str) -> int:
    return tr._connection.read().catalog.table((name,), "main").id


def files(place: Path) -> set[Path]:
    return set((place / "warehouse").rglob("*.parquet"))


def test_it_refreshes_what_is_due_in_order(tr: Trickle) -> None:
    scheduler = tr.scheduler()
    assert scheduler.tick().reports == ()
    tr.sql("INSERT INTO a VALUES (3, 30)")
    assert [r.name for r in scheduler.tick().reports] == ["main.s"]
    assert [r.name for r in scheduler.tick().reports] == ["main.t"]
    assert scheduler.tick().reports == ()
    assert value(tr, "SELECT w FROM t") == 61
    rows = tr.answer("refresh_history", "s").dicts()
    assert [(r["action"], r["initiated_by"]) for r in rows] == [
        ("DIFFERENTIAL", "scheduler"),
        ("FULL", "manual"),
    ]


def test_a_commit_wakes_it(tr: Trickle) -> None:
    """No polling: with an hour between two looks, it still sees the commit."""
    tr.sql("SET trickle.scheduler_interval_ms = 3600000")
    seen: list[str] = []
    with tr.scheduler() as scheduler:
        scheduler.report_listeners.append(lambda report: seen.append(report.name))
        tr.sql("INSERT INTO a VALUES (4, 40)")
        bell = tr._connection.place.warehouse.changed
        for _ in range(100):
            heard = bell.heard
            if "main.t" in seen:
                break
            bell.wait(heard, 1.0)
    assert value(tr, "SELECT w FROM t") == 71


def test_gates_and_pauses(tr: Trickle) -> None:
    tr.gate_source("a")
    tr.sql("INSERT INTO a VALUES (5, 50)")
    assert tr.scheduler().tick().reports == ()
    assert waiting(tr, "main.s") == 'the gate of "main.a" is closed'
    tr.pause_all()
    tr.ungate_source("a")
    assert tr.scheduler().tick().reports == ()
    assert waiting(tr, "main.s") == "all refreshes are paused"
    tr.resume_all()
    assert tr.drain()
    assert value(tr, "SELECT w FROM t") == 81


def test_watermarks(tr: Trickle) -> None:
    tr.sql("CREATE TABLE b (id INT)")
    tr.create_watermark_group("day", ["a", "b"], tolerance_seconds=60)
    tr.sql("INSERT INTO a VALUES (6, 60)")
    assert tr.scheduler().tick().reports == ()
    assert "has no watermark yet" in waiting(tr, "main.s")
    noon = datetime(2026, 11, 15, 12, tzinfo=UTC)
    tr.advance_watermark("a", noon)
    tr.advance_watermark("b", noon - timedelta(hours=1))
    assert "lags by more than 60 s" in waiting(tr, "main.s")
    tr.advance_watermark("b", noon)
    with pytest.raises(InvalidDefinitionError, match="already"):
        tr.advance_watermark("b", noon - timedelta(hours=1))
    assert tr.drain()
    assert [r["watermark_group"] for r in tr.answer("watermark_status").dicts()] == ["day", "day"]
    tr.drop_watermark_group("day")
    with pytest.raises(InvalidDefinitionError):
        tr.drop_watermark_group("day")


def test_a_failing_one_is_retried_then_suspended_then_resumed(tr: Trickle) -> None:
    tr.sql("CREATE STREAM TABLE shares SCHEDULE '10ms' AS SELECT id, 100 / v AS share FROM a")
    tr.sql("INSERT INTO a VALUES (7, 0)")
    for _ in range(3):
        tick = tr.scheduler().tick()
        assert [name for name, _ in tick.failures] == ["main.shares"]
        # Waiting is the scheduler's business, not the test's: the time of the retry is brought forward.
        brought_forward = now() - timedelta(seconds=1)
        scheduling.set_retry(tr._connection.place.warehouse.engine, id_of(tr, "shares"), brought_forward)
    assert events(tr).count("refresh_failed") == 2
    assert events(tr)[0] == "auto_suspended"
    assert waiting(tr, "main.shares").startswith("SUSPENDED")
    found = tr.answer("diagnose_errors", "shares").dicts()
    assert [(r["error_class"], r["cause_is_gone"]) for r in found] == [("user", False)] * 3
    checks = {r["check_name"]: r["severity"] for r in tr.answer("health_check").dicts()}
    assert checks["suspended"] == "error"
    assert value(tr, "SELECT count(*) FROM shares") == 2  # the last exact state
    tr.sql("DELETE FROM a WHERE v = 0")
    tr.resume("shares")
    assert tr.drain()
    assert tr.sql("SELECT * FROM trickle.audit('shares')").collect() == []
    assert tr.answer("diagnose_errors", "shares").dicts()[0]["cause_is_gone"]


def test_an_immediate_one_that_fails_is_a_failure_of_what_it_follows(tr: Trickle, tmp_path: Path) -> None:
    tr.sql("CREATE STREAM TABLE kept SCHEDULE '10ms' AS SELECT id, v FROM a")
    tr.sql("CREATE STREAM TABLE shares REFRESH MODE IMMEDIATE AS SELECT id, 100 / v AS share FROM kept")
    tr.sql("INSERT INTO a VALUES (7, 0)")
    before = files(tmp_path)
    for fail in (tr.refresh, lambda name: tr.reset_fuse(name, "reinitialize")):
        with pytest.raises(QueryError, match=r'DIVIDE_BY_ZERO: in the IMMEDIATE stream table "main.shares"'):
            fail("kept")
    assert files(tmp_path) == before
    known = {r["name"]: r for r in tr.answer("status").dicts()}
    assert (known["main.kept"]["status"], known["main.kept"]["consecutive_errors"]) == ("ERROR", 2)
    assert known["main.shares"]["status"] == "ACTIVE"
    assert [h["action"] for h in tr.answer("refresh_history", "kept").dicts()] == ["ERROR", "ERROR", "FULL"]
    assert [name for name, _ in tr.scheduler().tick().failures] == ["main.kept"]
    assert "auto_suspended" in events(tr)
    assert '"main.shares"' in waiting(tr, "main.kept")


def test_a_fuse_stops_what_is_absurd(tr: Trickle) -> None:
    tr.sql("CREATE STREAM TABLE f SCHEDULE '10ms' WITH (fuse_ceiling = 5) AS SELECT * FROM a")
    tr.sql("INSERT INTO a SELECT id, 1 FROM range(6)")
    with pytest.raises(FuseBlownError, match="6 rows changed, but the limit is 5"):
        tr.refresh("f")
    tr.scheduler().tick()
    assert waiting(tr, "main.f").startswith("FUSED")
    with pytest.raises(InvalidDefinitionError, match="skip"):
        tr.reset_fuse("f", "skip_changes")
    assert tr.reset_fuse("f").action is Action.DIFFERENTIAL
    tr.sql("INSERT INTO a SELECT id, 2 FROM range(6)")
    assert tr.reset_fuse("f", "reinitialize").action is Action.REINITIALIZE
    assert tr.sql("SELECT * FROM trickle.audit('f')").collect() == []
    assert tr.refresh("f").action is Action.NO_DATA


def test_append_only_ends_with_the_first_row_that_goes(tr: Trickle) -> None:
    tr.create_stream_table("log", "SELECT * FROM a", append_only=True)
    tr.sql("INSERT INTO a VALUES (8, 80)")
    assert "append_only" not in tr.refresh("log").reason
    tr.sql("UPDATE a SET v = 81 WHERE id = 8")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert "append_only was switched off" in tr.refresh("log").reason
    assert any("append_only" in str(w.message) for w in caught)
    assert events(tr)[0] == "append_only_reverted"
    assert "append_only" not in tr.answer("export_definition", "log").rows[0][0]
    assert tr.sql("SELECT * FROM trickle.audit('log')").collect() == []


def test_one_scheduler_at_a_time_and_the_other_takes_over(tr: Trickle, tmp_path: Path) -> None:
    with connect(tmp_path / "warehouse", spark=tr.spark, settings=FAST) as other:
        first, second = tr.scheduler(), other.scheduler()
        assert first.tick().active
        tr.sql("INSERT INTO a VALUES (9, 90)")
        assert not second.tick().active
        # The first one dies in the middle of a refresh: its lease runs out, and what it did is due again.
        engine = tr._connection.place.warehouse.engine
        scheduling.mark_running(engine, [id_of(tr, "s")], first.session_id, now())
        scheduling.claim_scheduler(engine, first.session_id, now() - timedelta(hours=1), 1.0)
        assert [r.name for r in second.tick().reports] == ["main.s"]
        assert "orphan_recovered" in events(tr)
        assert not first.tick().active


def test_settings_from_file_environment_and_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tr: Trickle
) -> None:
    place = tmp_path / "other"
    place.mkdir()
    (place / "trickle.toml").write_text('profile = "resource_constrained"\nmax_driver_rows = 30000\n')
    monkeypatch.setenv("TRICKLE_MAX_CONSECUTIVE_ERRORS", "7")
    with connect(place, spark=tr.spark, settings={"history_days": 2}) as made:
        found = made._connection.place.settings
    assert (found.max_concurrent_refreshes, found.max_driver_rows) == (1, 30_000)
    assert (found.max_consecutive_errors, found.history_days) == (7, 2.0)
    (place / "trickle.toml").write_text("profile = 'fast'")
    with pytest.raises(SettingError, match="low_latency"):
        connect(place, spark=tr.spark)
    (place / "trickle.toml").write_text("profile = ")
    with pytest.raises(SettingError, match="cannot be read"):
        connect(place, spark=tr.spark)


def test_changes_that_nobody_reads_are_told_once(tr_sqlite: Trickle) -> None:
    tr = tr_sqlite
    tr.sql("SET trickle.buffer_alert_rows = 5")
    tr.sql("SET trickle.buffer_alert_cycles = 1")
    tr.sql("CREATE TABLE t (x INT)")
    tr.sql("CREATE STREAM TABLE s AS SELECT x FROM t")
    tr.sql("ALTER STREAM TABLE s SUSPEND")
    tr.sql("INSERT INTO t SELECT id FROM range(9)")
    alerts: list[str] = []
    scheduler = tr.scheduler(on_alert=lambda a: alerts.append(f"{a.event} {a.table_name}"))
    scheduler.tick()
    scheduler.tick()
    assert alerts == ["change_buffer_backpressure main.t"]


def test_waits_idle_workers_and_reads_are_counted(tr_sqlite: Trickle) -> None:
    tr = tr_sqlite
    tr.sql("CREATE TABLE t (x INT)")
    tr.sql("CREATE STREAM TABLE s AS SELECT x FROM t")
    tr.sql("CREATE STREAM TABLE at_once REFRESH MODE IMMEDIATE AS SELECT sum(x) AS n FROM t")
    tr.sql("CREATE VIEW v AS SELECT x FROM s")

    def totals() -> dict[str, float]:
        return {r["metric"]: r["value"] for r in tr.answer("metrics_summary").dicts()}

    before = totals()
    tr.sql("INSERT INTO t VALUES (1)")
    tr.scheduler().run(0.2)
    after = totals()
    assert after["immediate_waits"] == before["immediate_waits"] + 1
    assert after["immediate_wait_ms"] >= before["immediate_wait_ms"]
    assert after["worker_busy_ms"] > before["worker_busy_ms"]
    assert after["worker_idle_ms"] > before["worker_idle_ms"]
    assert after["immediate_retries"] == before["immediate_retries"]
    (first,) = tr.answer("suggest_tiers").dicts()
    tr.sql("SELECT * FROM v").collect()
    tr.table("s").collect()
    (row,) = tr.answer("suggest_tiers").dicts()
    assert row["reads"] == first["reads"] + 2
    assert (row["name"], row["tier"], row["suggested_tier"]) == ("main.s", "hot", "hot")
    assert row["reason"] == "its history is shorter than a day"


def test_a_scheduler_vacuums(tr_sqlite: Trickle) -> None:
    tr = tr_sqlite
    tr.sql("SET trickle.retain_hours = 0")
    tr.sql("SET trickle.vacuum_interval_hours = 0.0000001")
    tr.sql("CREATE TABLE t (x INT)")
    for n in range(5):
        tr.sql(f"INSERT INTO t VALUES ({n})")
    before = tr.sql("SELECT * FROM trickle.snapshots()").count()
    scheduler = tr.scheduler()
    scheduler.tick()
    scheduler.tick()
    assert tr.sql("SELECT * FROM trickle.snapshots()").count() < before


def test_how_rows_were_stored_is_recorded(tr_sqlite: Trickle) -> None:
    """A change is appended; the one that crosses a threshold is merged in its own commit."""
    tr = tr_sqlite
    tr.sql("SET trickle.compact_change_files = 2")
    tr.sql("CREATE TABLE t (id INT PRIMARY KEY, x INT)")
    tr.sql("INSERT INTO t SELECT id, id FROM range(50)")
    tr.sql("CREATE STREAM TABLE s AS SELECT id, x + 1 AS y FROM t")
    told = []
    for n in range(6):
        tr.sql(f"UPDATE t SET x = -1 - {n} WHERE id = {n}")
        before = tr.snapshot
        report = tr.refresh("s")
        assert tr.snapshot == before + 1  # also when files were merged
        told.append(report.apply.partition(":")[0])
        assert sorted(map(tuple, tr.sql("SELECT id, y FROM s").collect())) == sorted(
            map(tuple, tr.sql("SELECT id, x + 1 FROM t").collect())
        )
        assert tr.sql(f"SELECT * FROM trickle.changes('s', {before}, {before + 1})").count() == 2
    assert told[0] == "append"
    assert "replace" in told
    history = [h["apply"].partition(":")[0] for h in tr.answer("refresh_history", "s").dicts()]
    assert history[:6] == told[::-1]
