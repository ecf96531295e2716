"""Spark's process dies: whoever asks is told so, no table is blamed, and what was committed is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import spark_trickle

SCRIPT = """
import os, signal, sys
import spark_trickle
with spark_trickle.connect(sys.argv[1]) as tr:
    tr.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
    tr.sql("CREATE STREAM TABLE s SCHEDULE '1s' AS SELECT v, row_number() OVER (ORDER BY id) AS n FROM t")
    tr.sql("INSERT INTO t VALUES (1, 'a')")
    java = tr.spark.sparkContext._gateway.proc
    java.send_signal(signal.SIGKILL)
    java.wait()
    for action in (
        lambda: tr.sql("SELECT * FROM t"),
        lambda: tr.sql("INSERT INTO t VALUES (2, 'b')"),
        lambda: tr.refresh("s"),
        lambda: tr.scheduler().run(20),
    ):
        try:
            action()
        except spark_trickle.TrickleError as error:
            print(error.code, flush=True)
    print(tr.answer("status").dicts()[0]["status"], flush=True)
print("closed", flush=True)
"""


def test_everybody_is_told(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK_GATEWAY")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "w")],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=300,
    )
    assert done.stdout.split() == ["SPARK_LOST"] * 4 + ["ACTIVE", "closed"], done.stderr[-3000:]
    with spark_trickle.connect(tmp_path / "w") as tr:
        assert [tuple(r) for r in tr.table("t").collect()] == [(1, "a")]
        tr.refresh("s")
        assert tr.sql("SELECT * FROM trickle.audit('s')").collect() == []
