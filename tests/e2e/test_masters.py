"""The command line runs where the user says: with --master and --conf, or as spark-submit was told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # Java starts several times

ROOT = Path(__file__).parents[2]
TRICKLE = "import sys\nfrom spark_trickle.cli.main import main\nsys.exit(main())\n"
CLUSTER = "local-cluster[1,1,1024]"


def checks(arguments: list[str]) -> dict[str, str]:
    """What the doctor found, by the name of the check."""
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        arguments, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=800, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])["checks"]
    return {check["name"]: check["found"] for check in found}


def test_a_cluster_by_options(tmp_path: Path) -> None:
    options = ["--master", CLUSTER, "--conf", "spark.executor.memory=512m"]
    found = checks([sys.executable, "-c", TRICKLE, "doctor", str(tmp_path), "--json", *options])
    assert found["spark"].endswith(f"on {CLUSTER}")
    assert found["executors"] == f"all can read {tmp_path}"
    assert "a row was written and read" in found["write and read"]


def test_spark_submit_chooses(tmp_path: Path) -> None:
    script = tmp_path / "trickle.py"
    script.write_text(TRICKLE)
    submit = str(Path(sys.executable).parent / "spark-submit")
    if not Path(submit).exists():
        pytest.skip("spark-submit is not beside this Python")
    found = checks([submit, "--master", "local[1]", str(script), "doctor", str(tmp_path), "--json"])
    assert found["spark"].endswith("on local[1]")
    assert "a row was written and read" in found["write and read"]
