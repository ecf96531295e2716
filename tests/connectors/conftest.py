"""The official writers and a broker, which `make test-connectors` installs; without them these tests are skipped."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

import spark_trickle
from spark_trickle.session import Trickle
from tests.connectors.broker import JARS, Broker
from tests.connectors.duck import is_installed, open_duckdb

_numbers = itertools.count()

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".connectors" / "bin" / "python"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(1_200))  # the other Spark has to start first


@dataclass
class Writer:
    """Another Spark, which runs statements one after the other."""

    folder: Path
    process: subprocess.Popen[str]

    def run(self, statement: str) -> list[str]:
        """The rows of the answer, each as JSON."""
        return self._ask(statement)

    def delete_by_value(self, table: str, column: str, value: int) -> None:
        """An equality delete in an Iceberg table."""
        self._ask([table, column, value])

    def _ask(self, request: object) -> list[str]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.read_answer()

    def read_answer(self) -> list[str]:
        assert self.process.stdout is not None
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return list(answer["rows"])


def show_rows(tr: Trickle, query: str) -> Counter[str]:
    """Rows as the writer shows them."""
    return Counter(r[0] for r in tr.sql(query).selectExpr("to_json(struct(*))").collect())


@pytest.fixture(scope="session")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    if not PYTHON.exists():
        pytest.skip("the official writers are not installed: run make test-connectors")
    folder = tmp_path_factory.mktemp("writer")
    command = [str(PYTHON), str(Path(__file__).with_name("writer.py")), str(folder)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=(folder / "log").open("w"), text=True
    )
    made = Writer(folder, process)
    made.read_answer()
    yield made
    assert process.stdin is not None
    process.stdin.close()
    process.wait(60)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if not any(JARS.glob("kafka_*.jar")):
        pytest.skip("the broker is not installed: run make test-connectors")
    made = Broker.format(tmp_path_factory.mktemp("kafka"))
    made.start()
    yield made
    if made.process is not None:
        made.stop()


@pytest.fixture
def topic(broker: Broker) -> str:
    """The name of a topic that is not there yet."""
    return f"topic{next(_numbers)}"


@pytest.fixture
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB, which reads what the official writers wrote."""
    if not is_installed():
        pytest.skip("DuckDB's extensions are not installed: run make test-connectors")
    with open_duckdb() as connection:
        yield connection


@pytest.fixture
def tr(tmp_path: Path) -> Iterator[Trickle]:
    with spark_trickle.connect(tmp_path / "warehouse") as connection:
        yield connection
