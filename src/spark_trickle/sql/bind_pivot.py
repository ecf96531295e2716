"""PIVOT"""

from __future__ import annotations

from sqlglot import exp

from spark_trickle.errors import UnsupportedError
from spark_trickle.sql.bind import Env
from spark_trickle.sql.scope import From


def pivoted(found: From, pivot: exp.Pivot, env: Env) -> From:
    raise UnsupportedError("PIVOT in a stream table", "Write it as aggregates with FILTER (WHERE …).")
