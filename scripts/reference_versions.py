"""What the package asks for, and what its tests run with -> the page of the versions."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from reference_text import table

from spark_trickle.sources.postgres.connect import OLDEST_VERSION

_ROOT = Path(__file__).parents[1]
_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[\w+\])?(.*)")


def versions_page() -> str:
    settings = tomllib.loads(_read("pyproject.toml"))
    project, locked = settings["project"], _read_lock()
    packages = [_split(text) for text in sorted(project["dependencies"])]
    postgres = re.findall(r'"TRICKLE_TEST_POSTGRES", "(\d+)"', _read("tests/postgres/server.py"))[0]
    rows = [
        [
            "Python",
            f"{project['requires-python']} ({_list_pythons(project)})",
            settings["tool"]["mypy"]["python_version"],
        ],
        ["Java", f">={_find_java()}", _find_java()],
        *([name, bounds, locked[name]] for name, bounds in packages),
        ["PostgreSQL, for a catalog", "", postgres],
        ["PostgreSQL, as a source or target", f">={OLDEST_VERSION // 10_000}", postgres],
        ["DuckDB, with DuckLake 1.0", "", locked["duckdb"]],
    ]
    return f"""
# Versions

What spark-trickle needs, and the versions that its tests run with, from `requirements.lock`. `trickle doctor`
reports what it finds on a machine.

{table(["", "needed", "tested"], rows)}

Other versions of PySpark 4 are accepted but not tested. Some tests of PostgreSQL also run on every other
version that they find on the machine. Windows is not supported.

Some things depend on the version of Spark: before 4.3, small jobs of a local session are slower
(`spark.sql.optimizer.singleTaskExecution.enabled`), and a server of Spark Connect cannot give refreshes a
session of their own, so refreshes run in the session of the user.
"""


def _read(path: str) -> str:
    return (_ROOT / path).read_text(encoding="utf-8")


def _read_lock() -> dict[str, str]:
    """The version of each package; several where it depends on that of Python."""
    found: dict[str, str] = {}
    for name, version in re.findall(
        r"^([\w.-]+)(?:\[\w+\])?==([\w.]+)", _read("requirements.lock"), re.MULTILINE
    ):
        found[name] = f"{found[name]}, {version}" if name in found else version
    return found


def _split(requirement: str) -> tuple[str, str]:
    """Name and bounds."""
    found = _REQUIREMENT.fullmatch(requirement)
    assert found is not None, requirement
    return found[1], found[2]


def _list_pythons(project: dict[str, Any]) -> str:
    """Those that the package declares."""
    return ", ".join(re.findall(r"Python :: (\d+\.\d+)", "\n".join(project["classifiers"])))


def _find_java() -> str:
    return re.findall(r"^required=(\d+)$", _read("scripts/ensure-java.sh"), re.MULTILINE)[0]
