"""The commands for stream tables, one after the other on one warehouse: what they print, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_trickle.cli.main import main

Captured = pytest.CaptureFixture[str]


def said(capsys: Captured, *arguments: str) -> list[dict[str, Any]]:
    """The JSON objects that a command prints."""
    assert main([*arguments, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_from_init_to_vacuum(tmp_path: Path, capsys: Captured) -> None:
    place = str(tmp_path / "shop")
    assert said(capsys, "init", place)[0]["catalog"].endswith("catalog.sqlite")
    said(capsys, "sql", place, "CREATE TABLE a (x INT); INSERT INTO a VALUES (1), (2)")
    made = said(capsys, "create", place, "total", "SELECT sum(x) AS s FROM a", "--schedule", "1h")
    assert made == [{"name": "total", "rows": 1, "snapshot": 3}]
    said(capsys, "create", place, "twice", "SELECT 2 * s AS t FROM total")
    said(capsys, "sql", place, "INSERT INTO a VALUES (4)")
    (report,) = said(capsys, "refresh", place, "twice", "--upstream")
    assert (report["name"], report["action"]) == ("main.twice", "DIFFERENTIAL")
    assert {r["action"] for r in said(capsys, "refresh", place)} == {"NO_DATA"}
    assert [r["name"] for r in said(capsys, "status", place)] == ["main.total", "main.twice"]
    assert {r["last_action"] for r in said(capsys, "status", place)} == {"DIFFERENTIAL"}
    assert [r["action"] for r in said(capsys, "history", place, "total", "-n", "1")] == ["DIFFERENTIAL"]
    assert {"property", "value"} == set(said(capsys, "explain", place, "total")[0])
    executed = said(capsys, "explain", place, "total", "--executed")
    assert {(r["action"], r["engine"]) for r in executed} == {("DIFFERENTIAL", "driver")}
    assert {r["action"] for r in said(capsys, "explain", place, "total", "--executed", "-n", "2")} == {"FULL"}
    assert [r["name"] for r in said(capsys, "dag", place)] == ["main.a", "main.total", "main.twice"]
    assert said(capsys, "audit", place, "twice") == []
    changes = said(capsys, "changes", place, "total", "--since", "3")
    assert sorted((r["_change_type"], r["s"]) for r in changes) == [("delete", 3), ("insert", 7)]
    assert said(capsys, "optimize", place, "total")[0]["name"] == "total"
    assert "snapshot" in said(capsys, "vacuum", place, "--hours", "1")[0]
    assert {r["severity"] for r in said(capsys, "health", place)} <= {"ok", "warning"}


def test_drawings_and_mistakes(tmp_path: Path, capsys: Captured) -> None:
    place = str(tmp_path / "shop")
    assert main(["sql", place, "CREATE TABLE a (x INT); CREATE STREAM TABLE s AS SELECT x FROM a"]) == 0
    capsys.readouterr()
    for form, words in (("tree", "main.s (AUTO)"), ("mermaid", "graph LR"), ("dot", "digraph trickle {")):
        assert main(["dag", place, "--format", form]) == 0
        assert words in capsys.readouterr().out
    assert main(["dag", place, "--format", "png"]) != 0
    assert main(["refresh", place, "nothing"]) != 0
    assert "hint:" in capsys.readouterr().err
    assert main(["create", place, "t", "SELECT x FROM a", "--schedule", "soon"]) != 0
    assert main(["sql", place, "ALTER STREAM TABLE s SUSPEND"]) == 0
    assert main(["health", place]) == 1
    assert main(["sql", place, "ALTER STREAM TABLE s RESUME"]) == 0
    assert main(["health", place]) == 0
