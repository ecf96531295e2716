"""A process that opens a warehouse and runs statements; its environment may make it die on the way.

It reads its Job as JSON from its input, so that a test can start it early and let it wait.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import spark_trickle
from tests.crash.sharing import open_spark

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Job:
    path: str
    data_path: str | None
    statements: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)


def start(environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crash.child"],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(child: subprocess.Popen[str], job: Job) -> str:
    """Give a child its job and wait for its end; what it printed helps when it ended the wrong way."""
    output, _ = child.communicate(json.dumps(asdict(job)), timeout=200)
    return output


def run(spark: SparkSession | None, job: Job) -> None:
    with spark_trickle.connect(job.path, data_path=job.data_path, spark=spark, settings=job.settings) as tr:
        for statement in job.statements:
            tr.sql(statement)


def leave(code: int) -> None:
    """End without PySpark's exit handlers: the JVM may belong to the parent."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    try:
        spark = open_spark()
        run(spark, Job(**json.load(sys.stdin)))
    except BaseException:
        traceback.print_exc()
        leave(1)
    leave(0)
