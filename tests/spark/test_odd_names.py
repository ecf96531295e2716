"""Names of any letters in the query of a stream table, in every place where a query can have one."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_trickle import connect
from spark_trickle.sql.lexer.words import quote
from tests.conftest import rows

_QUERIES = [
    "SELECT [id], [v] AS [o] FROM [t] WHERE [v] > 5",
    "SELECT * FROM [t]",
    "SELECT [g], sum([v]) AS [s], min([v]) AS [m], count(*) AS [n] FROM [t] GROUP BY [g]",
    "SELECT [g] AS [k], avg([v]) AS [a], max([v]) AS [m], count(DISTINCT [v]) AS [d] FROM [t] GROUP BY 1",
    "SELECT [a].[id], [b].[g] AS [z] FROM [t] [a] JOIN [t] [b] USING ([id])",
    "SELECT [t].[id], [q].[g] FROM [t] LEFT JOIN (SELECT * FROM [t] WHERE [g] = 2) [q] ON [q].[id] = [t].[id]",
    "SELECT DISTINCT [g] FROM [t]",
    "SELECT [id], row_number() OVER (PARTITION BY [g] ORDER BY [v] DESC, [id]) AS [n] FROM [t]",
    "SELECT [id] FROM [t] ORDER BY [v] DESC, [id] LIMIT 2",
    "SELECT [id] AS [x] FROM [t] UNION ALL SELECT [g] FROM [t]",
    "SELECT [id] AS [x] FROM [t] EXCEPT SELECT [g] FROM [t]",
    "SELECT [id] FROM [t] WHERE [id] IN (SELECT [g] FROM [t])",
    "SELECT [id], (SELECT max([v]) FROM [t] [y] WHERE [y].[g] = [t].[g]) AS [m] FROM [t]",
    "WITH [w]([p], [q]) AS (SELECT [id], [g] FROM [t]) SELECT [p] + [q] AS [s] FROM [w]",
    "SELECT [id], [e] FROM [t] LATERAL VIEW explode(array([g], [v])) [l] AS [e]",
    "SELECT [id], [s].[f] AS [z], [s] FROM (SELECT [id], struct([v] AS [f]) AS [s] FROM [t])",
    "SELECT * FROM (SELECT [g], [v] FROM [t]) PIVOT (sum([v]) FOR [g] IN (1 AS [one], 2 AS [two]))",
    "SELECT [id], value, label FROM (SELECT [id], [g] AS g, [v] AS v FROM [t]) UNPIVOT (value FOR label IN (g, v))",
    "SELECT [id], sum([v]) OVER [w] AS [s] FROM [t] WINDOW [w] AS (PARTITION BY [g])",
]


def _written(text: str, letters: str) -> str:
    """[name] is a name that ends with these letters, in backticks."""
    for plain in ("id", "one", "two", *"abdefghklmnopqstvwxyz"):
        text = text.replace(f"[{plain}]", quote(plain + letters))
    assert "[" not in text, text
    return text


@pytest.mark.parametrize(
    ("letters", "queries"),
    [
        ("`", _QUERIES[2::4]),
        pytest.param("`", _QUERIES, marks=pytest.mark.slow),
        pytest.param("``{x} . 'y\" \\", _QUERIES, marks=pytest.mark.slow),
    ],
)
def test_odd_names_in_every_place_of_a_query(tmp_path: Path, letters: str, queries: list[str]) -> None:
    with connect(tmp_path / "w") as tr:

        def run(text: str) -> None:
            tr.sql(_written(text, letters))

        run("CREATE TABLE [t] ([id] INT PRIMARY KEY, [g] INT, [v] INT)")
        run("INSERT INTO [t] VALUES (1, 1, 10), (2, 1, 20), (3, 2, 30)")
        for n, query in enumerate(queries):
            run(f"CREATE STREAM TABLE {quote(f's{n}{letters}')} REFRESH MODE DIFFERENTIAL AS {query}")
        run("INSERT INTO [t] VALUES (4, 2, 5), (5, 3, 7)")
        run("UPDATE [t] SET [v] = [v] + 1 WHERE [id] = 2")
        run("DELETE FROM [t] WHERE [id] = 3")
        tr.refresh_all()
        for n, query in enumerate(queries):  # Spark itself cannot have such names in UNPIVOT
            wanted, found = tr.sql(_written(query, letters)), tr.table(quote(f"s{n}{letters}"))
            assert found.columns == wanted.columns
            assert rows(found) == rows(wanted), query
