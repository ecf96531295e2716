"""Sources under a running scheduler and on the command line; processes that are killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import spark_trickle
from spark_trickle.cli.main import main
from spark_trickle.lake.catalog.scheduling import Alert
from tests.crash.child import Job, finish, start
from tests.crash.sharing import address_of
from tests.sources.conftest import Shop

LISTENING = (
    "SELECT FROM pg_stat_activity WHERE application_name = 'spark-trickle listen' AND query ~ '^LISTEN'"
)
QUERY = "SELECT customer, sum(amount) AS s, count(*) AS n FROM orders GROUP BY customer"
ORDERS = [
    "CREATE TABLE orders (id int PRIMARY KEY, customer text, amount numeric(12, 2))",
    "INSERT INTO orders SELECT g, 'c' || g % 5, g * 1.25 FROM generate_series(1, 100) g",
]


def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait for something that happens by itself."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def ready(shop: Shop, mode: str) -> None:
    shop.run(*ORDERS)
    shop.attach(mode)
    shop.tr.create_mirror("orders", "shop.public.orders")
    shop.tr.create_stream_table("totals", QUERY, schedule="100ms")
    shop.tr.publish("totals", "shop", "public.totals")


@pytest.mark.parametrize("mode", ["trigger", "auto"])
def test_a_scheduler_keeps_all_of_it_fresh(shop: Shop, mode: str) -> None:
    """PostgreSQL to mirror to stream table to PostgreSQL, and nobody calls anything."""
    ready(shop, mode)
    alerts: list[Alert] = []
    with shop.tr.scheduler(on_alert=alerts.append) as scheduler:
        for number in range(3):
            shop.run(
                f"UPDATE orders SET amount = amount + {number} WHERE id % 3 = {number}",
                f"DELETE FROM orders WHERE id = {number + 10}",
            )
            until(lambda: shop.there("SELECT * FROM totals") == shop.there(QUERY))
        assert scheduler.failure is None
    assert alerts == []
    shop.tr.refresh("totals")
    shop.check(QUERY, "totals")


def test_triggers_wake_up_a_scheduler(shop: Shop) -> None:
    """It would look again by itself in an hour."""
    shop.run(*ORDERS)
    shop.attach("trigger", notify="true")
    shop.tr.create_mirror("orders", "shop.public.orders")
    shop.tr.create_stream_table("totals", QUERY, schedule="100ms")
    with spark_trickle.connect(shop.place, settings={"source_sync_interval_ms": 3_600_000}) as tr:
        with tr.scheduler():
            until(lambda: bool(shop.world.rows(LISTENING)))
            for number in range(3):
                shop.run(f"UPDATE orders SET amount = amount + 1 WHERE id % 3 = {number}")
                until(lambda: shop.here("SELECT * FROM totals") == shop.there(QUERY))
        assert tr.answer("source_status").dicts()[0]["last_error"] == ""


def test_a_source_that_goes_away_and_comes_back(shop: Shop) -> None:
    ready(shop, "trigger")
    alerts: list[Alert] = []
    scheduler = shop.tr.scheduler(on_alert=alerts.append)
    shop.run("ALTER TABLE orders RENAME COLUMN customer TO buyer")
    scheduler.tick()
    assert [a.event for a in alerts] == ["source_needs_help"]
    scheduler.tick()
    assert len(alerts) == 1  # told once
    shop.run("ALTER TABLE orders RENAME COLUMN buyer TO customer")
    shop.tr.resync("orders")
    shop.run("DELETE FROM orders WHERE id = 1")
    assert scheduler.drain()
    shop.check(QUERY, "totals")
    assert shop.there("SELECT * FROM totals") == shop.there(QUERY)


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    assert main([*arguments, "--json"]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_commands(shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop.run(*ORDERS)
    place = str(tmp_path / "by-command")
    said(
        capsys,
        "attach",
        place,
        "shop",
        "--dsn",
        "env:SHOP_DSN",
        "--tables",
        "public.*",
        "--cdc-mode",
        "trigger",
    )
    assert said(capsys, "mirror", place, "shop.public.orders")[0]["rows"] == 100
    said(capsys, "create", place, "totals", QUERY)
    assert said(capsys, "publish", place, "totals", "shop", "--as", "public.totals")[0]["rows_inserted"] == 5
    shop.run("DELETE FROM orders WHERE id < 11")
    assert said(capsys, "sync", place, "shop")[0]["tables"] == {"main.orders": [0, 10]}
    said(capsys, "refresh", place, "totals")
    assert shop.there("SELECT * FROM totals") == shop.there(QUERY)
    status = said(capsys, "sources", place)
    assert [row.get("status") or row["published_as"] for row in status] == ["ACTIVE", "public.totals"]
    assert all(row["ok"] for row in said(capsys, "sources", place, "--health"))
    shop.run("ALTER TABLE orders DISABLE TRIGGER USER")
    assert any(not row["ok"] for row in said(capsys, "sources", place, "--health", code=1))
    shop.run("ALTER TABLE orders ENABLE TRIGGER USER", "DELETE FROM totals")
    said(capsys, "publish", place, "totals", "shop", "--repair")
    assert shop.there("SELECT * FROM totals") == shop.there(QUERY)
    said(capsys, "resync", place, "orders")
    said(capsys, "unpublish", place, "totals")
    said(capsys, "detach", place, "shop")
    assert not shop.world.rows("SELECT FROM pg_trigger")
    assert main(["sync", place, "shop"]) != 0
    assert "hint:" in capsys.readouterr().err


KILLS = [
    ("trigger", "after_data"),
    ("trigger", "before_commit"),
    ("trigger", "after_landing"),
    ("wal", "before_commit"),
    ("wal", "after_landing"),
    ("auto", "after_commit"),
    ("auto", "after_landing"),
]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("mode", "point"), KILLS)
@pytest.mark.shows("postgres", "a process killed at every step of a sync")
def test_a_process_killed_in_the_middle_of_a_sync(shop: Shop, mode: str, point: str) -> None:
    """Nothing is lost, nothing is doubled: the next sync goes on where the commit was."""
    ready(shop, mode)
    for number in range(2):
        shop.run(
            f"UPDATE orders SET amount = amount + 1 WHERE id % 2 = {number}",
            "DELETE FROM orders WHERE id = (SELECT min(id) FROM orders)",
        )
        environment = {**address_of(shop.tr.spark), "SPARK_TRICKLE_CRASH_POINT": point}
        with start(environment) as child:
            output = finish(child, Job(str(shop.place), None, ("SYNC SOURCE shop",)))
        assert child.returncode == -signal.SIGKILL, output
        report = shop.tr.sync("shop")
        assert report.resynced == {}
        shop.check("SELECT * FROM orders")
        shop.tr.refresh("totals")
        shop.check(QUERY, "totals")
        assert shop.there("SELECT * FROM totals") == shop.there(QUERY)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_daemon_killed_while_pgbench_writes(shop: Shop, tmp_path: Path) -> None:
    times = int(os.environ.get("TRICKLE_KILLS", "5"))
    shop.run("CREATE EXTENSION IF NOT EXISTS plpgsql")
    shop.world.server.run(
        "pgbench",
        "-i",
        "-s",
        "1",
        "-q",
        "-h",
        str(shop.world.server.home),
        "-U",
        "postgres",
        shop.world.database,
    )
    shop.attach("auto")
    query = "SELECT bid, sum(abalance) AS balance, count(*) AS n FROM pgbench_accounts GROUP BY bid"
    for name in ("pgbench_accounts", "pgbench_tellers", "pgbench_branches"):
        shop.tr.create_mirror(name, f"shop.public.{name}")
    shop.tr.create_stream_table("balances", query, schedule="100ms", refresh_mode="DIFFERENTIAL")
    shop.tr.publish("balances", "shop", "public.balances")
    for number in range(times):
        log = tmp_path / f"{number}.txt"
        with log.open("wb") as out:
            daemon = subprocess.Popen(
                [sys.executable, "-m", "spark_trickle.cli.main", "run", str(shop.place), "--set", "scheduler_lease_seconds=1"],
                stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        until(lambda log=log: "fresh" in log.read_text())  # type: ignore[misc]
        shop.world.server.run(
            "pgbench",
            "-n",
            "-c",
            "4",
            "-T",
            "5",
            "-h",
            str(shop.world.server.home),
            "-U",
            "postgres",
            shop.world.database,
        )
        os.killpg(daemon.pid, 9)
        daemon.wait()
    with spark_trickle.connect(shop.place) as tr:
        report = tr.sync("shop")
        assert report.resynced == {}
        tr.refresh("balances")
        shop.tr = tr
        for name in ("pgbench_accounts", "pgbench_tellers", "pgbench_branches"):
            shop.check(f"SELECT * FROM {name}")
        assert shop.there("SELECT * FROM balances") == shop.there(query)
        assert all(r["action"] != "FULL" for r in tr.answer("refresh_history", "balances", 1000).dicts()[:-1])
