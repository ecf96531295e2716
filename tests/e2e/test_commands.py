"""The other commands: version and help are quick, the doctor judges what it finds, the demo cleans up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import spark_trickle
from spark_trickle.cli import demo, doctor
from spark_trickle.cli.main import main

Captured = pytest.CaptureFixture[str]


def test_version(capsys: Captured) -> None:
    assert main(["version"]) == 0
    assert main(["version", "--json"]) == 0
    plain, as_json = capsys.readouterr().out.splitlines()
    assert plain == f"spark-trickle {spark_trickle.__version__}"
    assert json.loads(as_json) == {"version": spark_trickle.__version__}


def test_help_names_every_command(capsys: Captured) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(
        command in text for command in ("sql", "demo", "doctor", "version", "run", "status", "refresh")
    )


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from spark_trickle.cli.main import main; main(['--help']); main(['version']); "
        "print([m for m in ('pyspark', 'sqlalchemy', 'sqlglot', 'pyarrow', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


JAVA = [
    ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime …', "ok", "17.0.15"),
    ('openjdk version "21" 2023-09-19', "ok", "21"),
    ('openjdk version "22-ea" 2024-03-19', "ok", "22-ea"),
    ('java version "1.8.0_392"', "bad", "1.8.0_392"),
    ('openjdk version "11.0.2"', "bad", "11.0.2"),
    ("The operation couldn’t be completed. Unable to locate a Java Runtime.", "bad", "no working Java found"),
    ("", "bad", "no working Java found"),
]


@pytest.mark.parametrize(("text", "state", "found"), JAVA, ids=[j[2] for j in JAVA])
def test_java_versions(text: str, state: str, found: str) -> None:
    check = doctor.check_java(text)
    assert (check.state, check.found) == (state, found)
    assert bool(check.advice) == (state == "bad")


def test_other_versions() -> None:
    assert doctor.check_python((3, 11)).state == "ok"
    assert doctor.check_python((3, 9)).state == "bad"
    assert [doctor.check_pyspark(v).state for v in ("4.3.0", "3.5.1", None)] == ["ok", "bad", "bad"]


def test_places(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert doctor.check_writable("x", tmp_path / "not" / "yet").state == "ok"
    assert doctor.check_writable("x", file).state == "bad"
    assert doctor.check_writable("x", file / "below").state == "bad"
    assert doctor.check_space("x", tmp_path, little=0).state == "ok"
    assert doctor.check_space("x", tmp_path, little=2**80).state == "note"


def test_doctor(tmp_path: Path, capsys: Captured) -> None:
    assert main(["doctor", str(tmp_path), "--json"]) == 0
    checks = {c["name"]: c for c in json.loads(capsys.readouterr().out)["checks"]}
    assert {c["state"] for c in checks.values()} <= {"ok", "note"}
    assert "a row was written and read" in checks["write and read"]["found"]
    assert list(tmp_path.iterdir()) == []


def test_doctor_finds_a_bad_place(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "file"
    file.touch()
    assert main(["doctor", str(file), "--quick"]) == 5
    assert "is not a folder" in capsys.readouterr().out


def processes_of_session(leader: int) -> list[str]:
    """The command lines of all processes in a session."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(command)
    return found


@dataclass(frozen=True)
class Run:
    """What a process of its own did: the demo, then a mistake."""

    code: int
    out: str
    err: str
    left_running: list[str]
    place: list[str]  # what is in its working folder afterwards
    temporary: list[str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    place, temporary = tmp_path_factory.mktemp("place"), tmp_path_factory.mktemp("temporary")
    commands = "import sys; from spark_trickle.cli.main import main; code = main(['demo', '--tour']); "
    commands += "sys.exit(code or main(['sql', 'shop', 'SELECT * FROM products']))"
    process = subprocess.Popen(
        [sys.executable, "-c", commands],
        cwd=place,
        env={**os.environ, "TMPDIR": str(temporary), "COLUMNS": "120"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    # Java holds the pipe of stdout too, so this returns only when it has ended as well.
    out, err = process.communicate(timeout=280)
    left = processes_of_session(process.pid)
    names = [sorted(f.name for f in folder.iterdir()) for folder in (place, temporary)]
    return Run(process.returncode, out, err, left, *names)


def test_the_demo_shows_every_step(run: Run) -> None:
    for number, step in enumerate(demo.SHOP, start=1):
        assert f"{number}. {step.title}" in run.out
    assert "update_preimage" in run.out
    assert "error [DUPLICATE_KEY]" in run.out
    duckdb = run.out.partition("The same data in DuckDB")[2]
    assert all(name in duckdb for name in ("cup", "kettle", "sieve"))


def test_errors_are_all_that_goes_to_stderr(run: Run) -> None:
    assert run.code == 2
    assert (
        run.err
        == 'error [TABLE_NOT_FOUND]: table "products" does not exist\nhint: There are no tables yet.\n'
    )


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found through /proc")
def test_no_process_is_left(run: Run) -> None:
    assert run.left_running == []


def test_no_temporary_file_is_left(run: Run) -> None:
    """Spark's own folder may stay: there is one for each user, and it does not grow."""
    assert [name for name in run.temporary if name != f"spark-trickle-{os.getuid()}"] == []


def test_nothing_but_the_warehouse_is_left(run: Run) -> None:
    assert run.place == ["shop"]


@pytest.mark.slow
def test_a_conversation(tmp_path: Path) -> None:
    """On a terminal `trickle sql` asks for statements; an error does not end it."""
    import pty

    env = {**os.environ, "HOME": str(tmp_path), "TERM": "dumb", "COLUMNS": "100"}
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "spark_trickle.cli.main", "sql", str(tmp_path / "w")]
    process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=subprocess.DEVNULL, env=env)
    os.close(follower)
    os.write(leader, b"SELECT 41 +\n 1 AS answer;\nSELECT nothing;\nSELECT 7 AS seven;\nexit\n")
    seen = b""
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    assert process.wait(60) == 0
    text = seen.decode()
    assert "42" in text
    assert "COLUMN_NOT_FOUND" in text
    assert "seven" in text
    assert "SELECT 7 AS seven;" in (tmp_path / ".trickle_history").read_text()
