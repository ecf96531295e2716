"""This machine -> a list of checks: what was found, whether it is ok, and what to do if not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from rich.table import Table
from rich.text import Text

from spark_trickle.cli.show import open_console
from spark_trickle.cli.show import to_json as to_json
from spark_trickle.errors import FolderNotSharedError, Kind, TrickleError

_OLDEST_JAVA = 17
_OLDEST_PYTHON = (3, 11)
_LITTLE_SPACE = 2**30
_OPTIONAL = {"duckdb": "to read the warehouse without Spark"}


class Level(StrEnum):
    OK = "ok"
    NOTE = "note"
    BAD = "bad"


@dataclass(frozen=True)
class Check:
    name: str
    state: Level
    found: str
    advice: str = ""


def run_checks(folder: Path, start_spark: bool) -> list[Check]:
    checks = [
        check_python(sys.version_info[:2]),
        *([] if _java_is_elsewhere(os.environ) else [check_java(_java_text())]),
        check_pyspark(_find_version("pyspark") or _find_version("pyspark-client")),
        *(_check_package(name) for name in _list_needed_packages()),
        *(_check_optional(name, purpose) for name, purpose in _OPTIONAL.items()),
        check_writable("folder", folder),
        check_space("disk", folder),
        check_writable("temporary folder", Path(tempfile.gettempdir())),
    ]
    if start_spark and all(c.state is not Level.BAD for c in checks):
        checks += _check_round_trip(folder)
    return checks


def exit_code(checks: list[Check]) -> int:
    return Kind.ENVIRONMENT.value if any(c.state is Level.BAD for c in checks) else 0


def print_checks(checks: list[Check], as_json: bool) -> None:
    out = open_console()
    if as_json:
        print(to_json({"checks": [asdict(c) for c in checks]}))
        return
    shown = Table("check", "", "found", "what to do", header_style="bold")
    styles = {Level.OK: "green", Level.NOTE: "yellow", Level.BAD: "red"}
    for c in checks:
        shown.add_row(c.name, Text(c.state.value, style=styles[c.state]), Text(c.found), Text(c.advice))
    out.print(shown)


# --- the checks ------------------------------------------------------------------------------------


def check_python(found: tuple[int, ...]) -> Check:
    text = ".".join(str(n) for n in found)
    if found >= _OLDEST_PYTHON:
        return Check("python", Level.OK, text)
    return Check("python", Level.BAD, text, "Install Python 3.11 or newer.")


def check_java(text: str) -> Check:
    """From the words of `java -version`: 17.0.15, 21, 22-ea, or 1.8.0_392 for Java 8."""
    advice = "Install Java 17 or newer (Debian: openjdk-17-jre-headless) and set JAVA_HOME to it."
    found = re.search(r'version "(?:1\.)?(\d+)[^"]*"', text)
    if found is None:
        return Check("java", Level.BAD, "no working Java found", advice)
    enough = int(found[1]) >= _OLDEST_JAVA
    shown = found[0].split('"')[1]
    return Check("java", Level.OK, shown) if enough else Check("java", Level.BAD, shown, advice)


def check_pyspark(found: str | None) -> Check:
    if found is None or not found.startswith("4."):
        return Check("pyspark", Level.BAD, found or "not installed", 'pip install "pyspark>=4.0,<5"')
    return Check("pyspark", Level.OK, found)


def check_writable(name: str, folder: Path) -> Check:
    """A folder that is not there yet is as good as its parent."""
    place = _find_existing(folder)
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        return Check(name, Level.OK, str(folder.absolute()))
    problem = "is not a folder" if not place.is_dir() else "cannot be written"
    return Check(name, Level.BAD, f"{place} {problem}", "Choose a folder that you may write to.")


def check_space(name: str, folder: Path, little: int = _LITTLE_SPACE) -> Check:
    free = shutil.disk_usage(_find_existing(folder)).free
    text = f"{free / 2**30:.1f} GiB free"
    return (
        Check(name, Level.OK, text) if free >= little else Check(name, Level.NOTE, text, "Free some space.")
    )


def _find_existing(folder: Path) -> Path:
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return place


def _find_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _list_needed_packages() -> list[str]:
    """What the package asks for, without its extras; PySpark has a check of its own."""
    lines = [line for line in requires("spark-trickle") or [] if "extra ==" not in line]
    names = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in lines]
    return [name for name in names if name != "pyspark"]


def _check_package(name: str) -> Check:
    found = _find_version(name)
    if found is None:
        return Check(name, Level.BAD, "not installed", f"pip install {name}")
    if name == "pandas" and int(found.split(".")[0]) >= 3:
        return Check(name, Level.BAD, found, 'PySpark does not fully support it: pip install "pandas<3"')
    return Check(name, Level.OK, found)


def _check_optional(name: str, purpose: str) -> Check:
    found = _find_version(name)
    return (
        Check(name, Level.OK, found)
        if found
        else Check(name, Level.NOTE, "not installed", f"Only {purpose}.")
    )


def _java_is_elsewhere(environment: Mapping[str, str]) -> bool:
    """Whether a server of Spark Connect runs Spark; "local" starts one here."""
    return environment.get("SPARK_REMOTE", "local").startswith("sc:")


def _java_text() -> str:
    """What the Java that Spark would take says of itself; JAVA_HOME goes before PATH."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else "java"
    try:
        done = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout


def _check_round_trip(folder: Path) -> list[Check]:
    """The whole way once: start Spark, write a row to a new warehouse inside the folder, read it back."""
    from spark_trickle.cli.connection import open_connection
    from spark_trickle.cli.show import fetch_answer
    from spark_trickle.spark.probe import runs_elsewhere

    start, place = time.monotonic(), _find_existing(folder)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="trickle-doctor-", dir=place) as fresh,
            open_connection(fresh) as tr,
        ):
            session = Check("spark", Level.OK, f"{tr.spark.version} on {tr.spark.conf.get('spark.master')}")
            executors = runs_elsewhere(tr.spark)
            tr.sql("CREATE TABLE t (n INT)")
            tr.sql("INSERT INTO t VALUES (42)")
            found = fetch_answer(tr.sql("SELECT n FROM t"), 10).rows
    except FolderNotSharedError as error:
        return [Check("executors", Level.BAD, error.message, error.hint)]
    except TrickleError as error:
        return [Check("write and read", Level.BAD, error.message, error.hint)]
    seen = [session, *([Check("executors", Level.OK, f"all can read {place}")] if executors else [])]
    if found != ((42,),):
        return [*seen, Check("write and read", Level.BAD, f"wrote 42, read {found}", "Please report this.")]
    text = f"a row was written and read in {time.monotonic() - start:.1f} s, including the start of Spark"
    return [*seen, Check("write and read", Level.OK, text)]
