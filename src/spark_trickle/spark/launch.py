"""What the user told Spark before it starts -> the master and the tuning that are left for us to choose."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_FLAGS = {
    "--master": "spark.master",
    "--remote": "spark.remote",
    "--name": "spark.app.name",
    "--driver-memory": "spark.driver.memory",
}


@dataclass(frozen=True)
class Machine:
    cores: int
    memory_gib: int


def given_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """From spark-defaults.conf, the environment and the arguments of spark-submit; the last one holds."""
    homes = [environment.get("SPARK_CONF_DIR"), f"{environment.get('SPARK_HOME', '')}/conf"]
    defaults = next((Path(h) / "spark-defaults.conf" for h in homes if h), None)
    given = _read_properties(defaults)
    for variable, name in (("MASTER", "spark.master"), ("SPARK_REMOTE", "spark.remote")):
        if value := environment.get(variable):
            given[name] = value
    return given | _submit_arguments(shlex.split(environment.get("PYSPARK_SUBMIT_ARGS", "")))


def is_submitted(environment: Mapping[str, str]) -> bool:
    """Whether spark-submit started this process: then Java runs already, with all that was given to it."""
    return "PYSPARK_GATEWAY_PORT" in environment


def is_local(master: str) -> bool:
    """Whether all tasks run in one process on the machine of the driver."""
    return master.startswith("local") and not master.startswith("local-cluster")


def choose_settings(given: Mapping[str, str], machine: Machine) -> dict[str, str]:
    """The settings that nobody gave; a cluster is tuned by those who know it."""
    remote, master = given.get("spark.remote", ""), given.get("spark.master")
    if remote and not is_local(remote):
        return {}  # the server has been started by somebody else
    chosen = dict(_ANYWHERE)
    if remote or master is None or is_local(master):
        chosen |= _tune_one_process(machine)
    if not remote and master is None:
        chosen["spark.master"] = f"local[{machine.cores}]"
    return {name: value for name, value in chosen.items() if name not in given}


_ANYWHERE = {
    "spark.app.name": "spark-trickle",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.sql.timeType.enabled": "true",
}


def _tune_one_process(machine: Machine) -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.driver.memory": f"{machine.memory_gib}g",
        "spark.sql.shuffle.partitions": str(2 * machine.cores),
        # since Spark 4.3: a scan of one small file needs no shuffle
        "spark.sql.optimizer.singleTaskExecution.enabled": "true",
        # else a failed look-up leaves a folder behind where the user happens to be
        "spark.sql.warehouse.dir": f"{tempfile.gettempdir()}/spark-trickle-{os.getuid()}/spark-warehouse",
    }


def _submit_arguments(arguments: list[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    words = iter([part for a in arguments for part in (a.split("=", 1) if a.startswith("--") else (a,))])
    for word in words:
        if word in ("--conf", "-c"):
            name, _, value = next(words, "").partition("=")
            given[name] = value
        elif word == "--properties-file":
            given = _read_properties(Path(next(words, ""))) | given
        elif word in _FLAGS:
            given[_FLAGS[word]] = next(words, "")
    return given


def _read_properties(file: Path | None) -> dict[str, str]:
    """Lines of a name and a value, with blanks or a sign = between."""
    if file is None or not file.is_file():
        return {}
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    pairs = (line.replace("=", " ", 1).split(None, 1) for line in lines if line and not line.startswith("#"))
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}
