"""A query -> whether it asks for the value of x IN (SELECT …), which is NULL if that is unknown.

Spark says false there, and the standard is with us: see docs/decisions/0008.
"""

from __future__ import annotations

from sqlglot import exp

from spark_trickle.sql.dialect.spark import parse_query

_CONDITIONS = (exp.Where, exp.Having, exp.Join, exp.Qualify)  # unknown is as good as false


def membership_is_value(sql: str) -> bool:
    tests = (node for node in parse_query(sql).find_all(exp.In) if node.args.get("query"))
    return any(not isinstance(test.find_ancestor(exp.Select, *_CONDITIONS), _CONDITIONS) for test in tests)
