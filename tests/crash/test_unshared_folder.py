"""On a cluster where one executor does not see the data folder, nothing is lost: every write is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash.unshared import READS, WRITES

pytestmark = pytest.mark.slow  # Java starts several times

REFUSAL = "[FOLDER_NOT_SHARED] not all executors see"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("hiding a folder from a process is not permitted here")
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.unshared", str(tmp_path_factory.mktemp("cluster"))],
        cwd=ROOT,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_the_folder_was_shared(found: dict[str, Any]) -> None:
    assert found["connect before"] == "connected"


@pytest.mark.parametrize("step", [*WRITES, "connect after"])
def test_a_write_is_refused(found: dict[str, Any], step: str) -> None:
    assert REFUSAL in str(found[step])


@pytest.mark.parametrize("step", READS)
def test_a_read_is_right_or_refused(found: dict[str, Any], step: str) -> None:
    assert found[step] == READS[step][1] or REFUSAL in str(found[step])


def test_nothing_is_left(found: dict[str, Any]) -> None:
    assert (found["snapshots"], found["files left behind"]) == (0, [])
