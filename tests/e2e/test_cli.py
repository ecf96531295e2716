"""`trickle sql`: results on stdout, errors on stderr and as JSON, an exit code for each kind of error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import spark_trickle
from spark_trickle.cli.main import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A warehouse with a small table `t`; tests that change something make a table of their own."""
    place = tmp_path_factory.mktemp("cli") / "warehouse"
    with spark_trickle.connect(place) as tr:  # stays open, as the connection of another process would
        tr.sql("CREATE TABLE t (id INT, name STRING, PRIMARY KEY (id))")
        tr.sql("INSERT INTO t VALUES (1, 'a'), (2, NULL)")
        yield str(place)


def json_lines(captured: Captured) -> list[Any]:
    return [json.loads(line) for line in captured.readouterr().out.splitlines()]


def test_a_query_prints_a_table_and_a_change_a_line(folder: str, capsys: Captured) -> None:
    assert main(["sql", folder, "CREATE TABLE u AS SELECT * FROM t; SELECT * FROM u ORDER BY id"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("2 inserted (snapshot ")
    cells = [[c.strip() for c in line.strip("│┃").replace("┃", "│").split("│")] for line in lines[2:]]
    assert cells[0] == ["id", "name"]
    assert cells[2:4] == [["1", "a"], ["2", "NULL"]]


def test_rows_beyond_the_limit_are_announced(folder: str, capsys: Captured) -> None:
    assert main(["sql", folder, "--max-rows", "1", "SELECT id FROM t ORDER BY id"]) == 0
    assert "the first 1 rows" in capsys.readouterr().out
    assert main(["sql", folder, "--json", "--max-rows", "1", "SELECT id FROM t ORDER BY id"]) == 0
    [answer] = json_lines(capsys)
    assert (answer["rows"], answer["truncated"]) == ([[1]], True)
    assert main(["sql", folder, "--json", "--max-rows", "0", "SELECT id FROM t ORDER BY id"]) == 0
    [answer] = json_lines(capsys)
    assert (answer["rows"], answer["truncated"]) == ([[1], [2]], False)


VALUES = [
    ("1", 1),
    ("CAST(NULL AS STRING)", None),
    ("CAST('12345678901234567890.123456789' AS DECIMAL(38, 9))", "12345678901234567890.123456789"),
    ("CAST('NaN' AS DOUBLE)", "nan"),
    ("CAST('-Infinity' AS FLOAT)", "-inf"),
    ("X'00FF'", "00ff"),
    ("DATE'2026-01-31'", "2026-01-31"),
    ("TIMESTAMP_NTZ'2026-01-31 12:00:00.000001'", "2026-01-31T12:00:00.000001"),
    ("true", True),
    ("'naïve \"quoted\"'", 'naïve "quoted"'),
    ("ARRAY(1, NULL)", [1, None]),
    ("NAMED_STRUCT('a', 1.50)", {"a": "1.50"}),
    ("INTERVAL '1 02:03:04' DAY TO SECOND", "INTERVAL '1 02:03:04' DAY TO SECOND"),
    ("INTERVAL '2-3' YEAR TO MONTH", "INTERVAL '2-3' YEAR TO MONTH"),
    ("PARSE_JSON('[1]')", "[1]"),
    ("NULL", None),
]


def test_json_loses_no_value(folder: str, capsys: Captured) -> None:
    query = "SELECT " + ", ".join(f"{sql} AS x" for sql, _ in VALUES)  # all columns have the same name
    assert main(["sql", folder, "--json", query]) == 0
    [answer] = json_lines(capsys)
    assert [c["name"] for c in answer["columns"]] == ["x"] * len(VALUES)
    assert answer["rows"] == [[expected for _, expected in VALUES]]
    assert main(["sql", folder, query]) == 0  # and a table can show them all


def test_a_script_is_cut_only_at_its_own_semicolons(folder: str, tmp_path: Path, capsys: Captured) -> None:
    script = tmp_path / "script.sql"
    script.write_text(
        """-- a comment; with a semicolon
        CREATE TABLE `odd;name` (`a;b` STRING);; /* another; one */
        INSERT INTO `odd;name` VALUES ('a;b'), ("c;d");
        SELECT `a;b` FROM `odd;name` ORDER BY 1;
        SHOW TABLES LIKE 'odd*'
        """,
        encoding="utf-8",
    )
    assert main(["sql", folder, "--json", "-f", str(script)]) == 0
    answers = json_lines(capsys)
    assert [a["rows"] for a in answers][2:] == [[["a;b"], ["c;d"]], [["main", "odd;name", False]]]


ERRORS = [
    ("SELEC 1", 2, "SYNTAX_ERROR"),
    ("SELECT 'open", 2, "SYNTAX_ERROR"),
    ("SELECT * FROM tt", 2, "TABLE_NOT_FOUND"),
    ("SELECT nam FROM t", 2, "COLUMN_NOT_FOUND"),
    ("SELECT id / 0 FROM t", 2, "QUERY_ERROR"),  # found only when the rows are computed
    ("INSERT INTO t VALUES (1, 'x')", 2, "DUPLICATE_KEY"),
    ("CREATE TABLE m (x MAP<INT, INT>)", 3, "TYPE_NOT_ALLOWED"),
    ("COMMIT", 2, "TRANSACTION_STATE"),
    ("SELECT * FROM t VERSION AS OF 99", 2, "SNAPSHOT_NOT_FOUND"),
    ("SET trickle.retain_hour = 1", 2, "INVALID_SETTING"),
]


@pytest.mark.parametrize(("statement", "code", "name"), ERRORS, ids=[e[0] for e in ERRORS])
def test_a_mistake_has_a_code_and_a_hint_and_no_traceback(
    folder: str, statement: str, code: int, name: str, capsys: Captured
) -> None:
    assert main(["sql", folder, "--json", statement]) == code
    captured = capsys.readouterr()
    error = json.loads(captured.out)["error"]
    assert error["code"] == name
    assert error["message"]
    assert error["hint"]
    assert f"error [{name}]: {error['message']}\nhint: {error['hint']}" in captured.err
    assert "Traceback" not in captured.err
    assert "at org.apache" not in captured.err


def test_a_script_stops_at_its_first_error(folder: str, capsys: Captured) -> None:
    script = "CREATE TABLE k (id INT NOT NULL); INSERT INTO k VALUES (1);\nINSERT INTO k VALUES (NULL);\nDROP TABLE k"
    assert main(["sql", folder, script]) == 2
    assert "in the statement at line 2: INSERT INTO k VALUES (NULL)" in capsys.readouterr().err
    assert main(["sql", folder, "--json", "SELECT id FROM k"]) == 0
    assert json_lines(capsys)[0]["rows"] == [[1]]


def test_a_script_that_ends_in_a_transaction_is_told(folder: str, capsys: Captured) -> None:
    assert main(["sql", folder, "--json", "BEGIN; DELETE FROM t"]) == 2
    assert json_lines(capsys)[-1]["error"]["code"] == "TRANSACTION_STATE"
    assert main(["sql", folder, "--json", "SELECT count(*) FROM t"]) == 0
    assert json_lines(capsys)[0]["rows"] == [[2]]


def test_settings_reach_the_connection(folder: str, capsys: Captured) -> None:
    show = "SHOW trickle.retain_hours"
    assert main(["sql", folder, "--json", "--set", "retain_hours=24", show]) == 0
    assert json_lines(capsys)[0]["rows"][0][1] == "24.0"
    assert main(["sql", folder, "--set", "retain_hours", show]) == 2
    assert "write it as name=value" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["sql", "w"],
        ["sql", "w", "SELECT 1", "-f", "x.sql"],
        ["sql", "w", "-f", "missing.sql"],
        ["sql", "w", "-f", "latin1.sql"],
        ["sql", "w", " ; -- nothing"],
        ["sql"],
        ["nonsense"],
        ["demo", "--path", "full"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_explained_before_anything_is_opened(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("latin1.sql").write_bytes(b"SELECT '\xe9'")
    Path("full").mkdir()
    Path("full", "something").touch()
    assert main(arguments) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert not Path("w").exists()


def test_a_place_that_cannot_be_a_warehouse(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "file"
    file.touch()
    assert main(["sql", str(file), "SELECT 1"]) == 5
    assert "is a file, not a folder" in capsys.readouterr().err
