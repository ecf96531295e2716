"""kill -9 of the daemon in the middle of refreshes while a writer works: nothing lost, nothing doubled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spark_trickle import connect
from spark_trickle.cli.shop import NAMES, STREAM_TABLES, TABLES, Shop, first_rows
from spark_trickle.session import Trickle

LEASE = {"scheduler_lease_seconds": 1.0}


def started(place: Path, log: Path) -> subprocess.Popen[bytes]:
    """A daemon that has said that it runs."""
    command = [sys.executable, "-m", "spark_trickle.cli.main", "run", str(place)]
    command += ["--set", "scheduler_lease_seconds=1", "--set", "default_schedule_seconds=0.1"]
    with log.open("wb") as out:
        daemon = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    while "fresh" not in log.read_text():
        assert daemon.poll() is None, log.read_text()
        time.sleep(0.1)
    return daemon


def killed(daemon: subprocess.Popen[bytes]) -> None:
    """The daemon and the Java process that it started."""
    os.killpg(daemon.pid, signal.SIGKILL)
    daemon.wait()


def write(tr: Trickle, shop: Shop) -> None:
    with tr.transaction():
        for statement in shop.next_statements():
            tr.sql(statement)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_daemon_killed_again_and_again(tmp_path: Path) -> None:
    times = int(os.environ.get("TRICKLE_KILLS", "50"))
    place, chance = tmp_path / "warehouse", random.Random(5)
    with connect(place, settings=LEASE) as tr:
        for statement in (*TABLES, *first_rows(500), *STREAM_TABLES):
            tr.sql(statement)
        shop = Shop(500, random.Random(6))
        for number in range(times):
            daemon = started(place, tmp_path / f"run-{number}.txt")
            end = time.monotonic() + chance.uniform(0.5, 4.0)
            while time.monotonic() < end:
                write(tr, shop)
            killed(daemon)
        assert tr.scheduler().drain(300) or tr.scheduler().drain(300)
        for name in NAMES:
            assert tr.sql(f"SELECT * FROM trickle.audit('{name}')").collect() == [], name
        modes = {row["action"] for name in NAMES for row in tr.answer("refresh_history", name).dicts()[:-1]}
        assert modes <= {"DIFFERENTIAL"}
        assert tr.answer("worker_pool_status").rows == []
        checks = {row["check_name"]: row["severity"] for row in tr.answer("health_check").dicts()}
        assert checks["orphans"] == "ok"


@pytest.mark.slow
def test_the_daemon_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    place = tmp_path / "warehouse"
    with connect(place) as tr:
        tr.sql("CREATE TABLE a (x INT)")
        tr.sql("CREATE STREAM TABLE s AS SELECT count(*) AS n FROM a")
        daemon = started(place, tmp_path / "run.txt")
        tr.sql("INSERT INTO a VALUES (1)")
        for _ in range(300):
            if tr.sql("SELECT n FROM s").collect()[0].n == 1:
                break
            time.sleep(0.1)
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(60) == 0
        assert "main.s DIFFERENTIAL +1 -1" in (tmp_path / "run.txt").read_text()
        assert tr.scheduler().tick().active  # the lease was given back
