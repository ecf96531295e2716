"""A process with a cluster of two executors, one of which loses the folder that all should share.

It runs statements before and after, and prints what came of each as JSON. The folder is hidden from one
executor by an empty disk that is mounted over it, in a mount namespace of that executor alone.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import spark_trickle
from spark_trickle.errors import TrickleError
from spark_trickle.session import Trickle

# Executors are started with this: that of the second one waits to be told, and then hides the folder.
_JAVA = """#!/bin/sh
case " $* " in
*" --executor-id 1 "*)
    exec unshare -m sh -c '
        (read word < {home}/hide; mount -t tmpfs tmpfs {shared}; echo $? > {home}/hidden) &
        exec {java} "$@"' java "$@";;
esac
exec {java} "$@"
"""

BEFORE = (
    "CREATE TABLE bag (a BIGINT)",
    "CREATE TABLE keyed (a BIGINT, b STRING, PRIMARY KEY (a))",
    "CREATE STREAM TABLE even REFRESH MODE DIFFERENTIAL AS SELECT a FROM bag WHERE a % 2 = 0",
    "SET trickle.max_driver_rows = 1",
    "INSERT INTO bag SELECT * FROM range(0, 4000, 1, 40)",
    "INSERT INTO keyed SELECT id, 'x' FROM range(0, 400, 1, 4)",
)
# Both executors write.
WRITES = {
    "insert": "INSERT INTO bag SELECT * FROM range(0, 4000, 1, 4)",
    "insert with a key": "INSERT INTO keyed SELECT id, 'x' FROM range(400, 800, 1, 4)",
    "written down": (
        "MERGE INTO keyed USING (SELECT id, uuid() AS u FROM range(400, 800, 1, 4)) AS s ON s.id = keyed.a "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.id, s.u)"
    ),
}
# The executor that misses a file may leave its task to the other one: with the right rows inserted or counted.
READS = {
    "read many files": ("SELECT count(*) FROM bag", 4000),
    "differential refresh": ("REFRESH STREAM TABLE even", 2000),
    "full refresh": ("CREATE STREAM TABLE odd REFRESH MODE FULL AS SELECT a FROM bag WHERE a % 2 = 1", 2000),
}


def open_cluster(home: Path, shared: Path) -> SparkSession:
    binaries = home / "java" / "bin"
    binaries.mkdir(parents=True)
    for pipe in ("hide", "hidden"):
        os.mkfifo(home / pipe)
    java = shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin:{os.environ['PATH']}")
    (binaries / "java").write_text(_JAVA.format(home=home, shared=shared, java=java))
    (binaries / "java").chmod(0o755)
    return (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.executorEnv.JAVA_HOME", str(home / "java"))
        .config("spark.executor.memory", "512m")
        .config("spark.cores.max", "2")
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )


def hide(home: Path) -> None:
    (home / "hide").write_text("now\n")
    if (home / "hidden").read_text().strip() != "0":
        raise SystemExit("the folder cannot be hidden")


def outcome(tr: Trickle, statement: str) -> Any:
    """The first number of the answer, or the error."""
    try:
        return tr.arrow(statement).column(0)[0].as_py()
    except TrickleError as error:
        return str(error)


def connected(shared: Path, spark: SparkSession) -> Any:
    try:
        spark_trickle.connect(shared, spark=spark).close()
    except TrickleError as error:
        return str(error)
    return "connected"


def main(home: Path) -> None:
    shared = home / "shared"
    shared.mkdir()
    spark = open_cluster(home, shared)
    found: dict[str, Any] = {"connect before": connected(shared, spark)}
    settings = {"auto_compact": False}  # so that there are many files
    with warnings.catch_warnings(), spark_trickle.connect(shared, spark=spark, settings=settings) as tr:
        warnings.simplefilter("ignore")
        for statement in BEFORE:
            tr.sql(statement)
        before = tr.snapshot
        files = set(shared.rglob("*.parquet"))
        hide(home)
        for name, statement in WRITES.items():
            found[name] = outcome(tr, statement)
        found["snapshots"] = tr.snapshot - before
        found["files left behind"] = [str(p) for p in set(shared.rglob("*.parquet")) - files]
        for name, (statement, _) in READS.items():
            found[name] = outcome(tr, statement)
    found["connect after"] = connected(shared, spark)
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
