"""Statements about stream tables."""

from __future__ import annotations

import pytest

from spark_trickle.errors import InvalidDefinitionError, SqlSyntaxError
from spark_trickle.model.stream import Mode
from spark_trickle.model.stream_options import StreamOptions, Tier
from spark_trickle.sql.statements.kinds import (
    AlterStream,
    CreateStream,
    DropStream,
    ExplainQuery,
    ExplainStream,
    Query,
    RefreshStream,
    Statement,
)
from spark_trickle.sql.statements.parse import parse_statement

STATEMENTS: dict[str, Statement] = {
    "CREATE STREAM TABLE s AS SELECT 1": CreateStream(("s",), "SELECT 1"),
    "create materialized view a.s as with x as (select 1) select * from x": CreateStream(
        ("a", "s"), "with x as (select 1) select * from x"
    ),
    "CREATE STREAM TABLE IF NOT EXISTS s (a, b) AS VALUES (1, 2)": CreateStream(
        ("s",), "VALUES (1, 2)", ("a", "b"), if_not_exists=True
    ),
    "CREATE OR REPLACE STREAM TABLE s SCHEDULE '1m' REFRESH MODE FULL WITH (append_only = true, tier = 'cold') AS (SELECT 1)": CreateStream(
        ("s",),
        "(SELECT 1)",
        (),
        "1m",
        Mode.FULL,
        StreamOptions(append_only=True, tier=Tier.COLD),
        replace=True,
    ),
    "CREATE STREAM TABLE s SCHEDULE CRON '*/5 * * * *' AS FROM t": CreateStream(
        ("s",), "FROM t", schedule="cron */5 * * * *"
    ),
    "CREATE STREAM TABLE s CRON '0 * * * *' AS TABLE t": CreateStream(
        ("s",), "TABLE t", schedule="cron 0 * * * *"
    ),
    "CREATE STREAM TABLE s SCHEDULE 'calculated' AS SELECT 1": CreateStream(
        ("s",), "SELECT 1", schedule="calculated"
    ),
    "ALTER STREAM TABLE s AS SELECT 2": AlterStream(("s",), "SELECT 2"),
    "ALTER STREAM TABLE s SET SCHEDULE '5m'": AlterStream(("s",), schedule="5m"),
    "ALTER STREAM TABLE s SET REFRESH MODE differential": AlterStream(("s",), mode=Mode.DIFFERENTIAL),
    "ALTER STREAM TABLE s SET (append_only = true)": AlterStream(("s",), options=(("append_only", True),)),
    "ALTER STREAM TABLE s SET refresh_mode = 'full', schedule = '2m', append_only = false": AlterStream(
        ("s",), None, "2m", Mode.FULL, (("append_only", False),)
    ),
    "DROP STREAM TABLE s": DropStream(("s",)),
    "DROP MATERIALIZED VIEW IF EXISTS a.s CASCADE": DropStream(("a", "s"), True, True),
    "REFRESH STREAM TABLE s": RefreshStream(("s",)),
    "REFRESH MATERIALIZED VIEW s;": RefreshStream(("s",)),
    "REFRESH TABLE s": Query("REFRESH TABLE s"),
    "EXPLAIN STREAM TABLE s": ExplainStream(("s",)),
    "EXPLAIN CREATE OR REPLACE STREAM TABLE s AS SELECT 1": ExplainQuery("SELECT 1"),
    "EXPLAIN SELECT 1": Query("EXPLAIN SELECT 1"),
}


@pytest.mark.parametrize("text", STATEMENTS)
def test_statement(text: str) -> None:
    assert parse_statement(text) == STATEMENTS[text]


WRONG = {
    "CREATE STREAM TABLE s": "expected SCHEDULE",
    "CREATE STREAM TABLE s AS": "expected a query",
    "CREATE STREAM TABLE s AS INSERT INTO t VALUES (1)": "expected a query",
    "CREATE STREAM TABLE s SCHEDULE 5 AS SELECT 1": "in quotes",
    "CREATE STREAM TABLE s REFRESH MODE SOMETIMES AS SELECT 1": "expected one of",
    "CREATE STREAM TABLE s WITH (a) AS SELECT 1": "expected =",
    "ALTER STREAM TABLE s": "expected SET",
    "ALTER STREAM TABLE s SET refresh_mode = 'often'": "expected one of",
    "DROP STREAM TABLE": "expected a name",
    "REFRESH STREAM TABLE s now": "after the statement",
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong(text: str) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_statement(text)
    assert WRONG[text] in caught.value.message


@pytest.mark.parametrize(
    "text", ["CREATE STREAM TABLE s WITH ({}) AS SELECT 1", "ALTER STREAM TABLE s SET ({})"]
)
@pytest.mark.parametrize(
    ("option", "message"),
    [("x = 'y'", 'no option "x"'), ("fuse_ceiling = '²'", "is not a number"), ("tier = 1", 'no tier "1"')],
)
def test_wrong_option(text: str, option: str, message: str) -> None:
    with pytest.raises(InvalidDefinitionError, match=message):
        parse_statement(text.format(option))
