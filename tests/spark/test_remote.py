"""Over Spark Connect everything is as it is on a session of this process, and no Java is needed here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark.remote import STEPS

ROOT = Path(__file__).parents[2]

# As pyspark-client is: without Py4J, and without what needs a JVM.
_WITHOUT_JAVA = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "py4j" or name.startswith("pyspark.core"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
import pkgutil, importlib
import spark_trickle
for module in pkgutil.walk_packages(spark_trickle.__path__, "spark_trickle."):
    if not module.name.startswith("spark_trickle.lake.catalog.migrations."):
        importlib.import_module(module.name)
print(sorted(name for name in sys.modules if name.startswith("py4j")))
"""


def run(arguments: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


def test_a_client_without_java_can_import_everything() -> None:
    assert run(["-c", _WITHOUT_JAVA], {}) == "[]"


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    pytest.importorskip("grpc")
    folder = str(tmp_path_factory.mktemp("remote"))
    found: list[Any] = json.loads(run(["-m", "tests.spark.remote", folder], {"SPARK_REMOTE": "local[2]"}))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(STEPS)), ids=[statement[:60] for statement, _ in STEPS])
def test_a_statement(answers: list[Any], number: int) -> None:
    wanted, found = STEPS[number][1], answers[number]
    assert (found[: len(wanted)] if isinstance(found, list) else found) == wanted
