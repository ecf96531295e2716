"""Values of PIVOT -> what Spark calls their columns: each value as a text."""

from __future__ import annotations

import re

from sqlglot import exp

from spark_trickle.algebra.expressions import Opaque
from spark_trickle.algebra.operators import Operator, Output, Project
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.structs import read_field_names
from spark_trickle.sql.dialect.spark import sql_of

_WHOLE = re.compile(r"(\d+)[lsy]?", re.IGNORECASE)
_DECIMAL = re.compile(r"(\d+\.\d+)(?:bd)?", re.IGNORECASE)


def list_members(node: exp.Expr) -> list[exp.Expr]:
    """(a, b) is two, a is one."""
    return node.expressions if isinstance(node, exp.Tuple) else [node.unnest()]


def name_cell(own: str, call: exp.Expr, calls: int) -> str:
    """By the value, and by the function if there are several; Spark counts rows as count(1)."""
    if calls == 1:
        return own
    return f"{own}_{call.alias or sql_of(call).lower().replace('count(*)', 'count(1)')}"


def name_values(values: list[exp.Expr], plan: Operator, env: Env) -> list[str]:
    """What is more than a plain literal only Spark can tell."""
    plain = [m for v in values if not isinstance(v, exp.PivotAlias) for m in list_members(v)]
    texts = {sql_of(m): _write_text(m) for m in plain}
    asked = _ask_for_names(tuple(sql for sql, text in texts.items() if text is None), plan, env)
    known = {sql: text if text is not None else asked[sql] for sql, text in texts.items()}
    return [_name_value(v, known) for v in values]


def _name_value(value: exp.Expr, texts: dict[str, str]) -> str:
    if isinstance(value, exp.PivotAlias):
        return value.alias
    own = [texts[sql_of(m)] for m in list_members(value)]
    return f"{{{', '.join(own)}}}" if isinstance(value, exp.Tuple) else own[0]


def _write_text(value: exp.Expr) -> str | None:
    match value:
        case exp.Null() | exp.Boolean():
            return sql_of(value).lower()
        case exp.Literal(is_string=True):
            return str(value.this)
        case exp.Literal():
            if whole := _WHOLE.fullmatch(str(value.this)):
                return str(int(whole[1]))
            return found[1] if (found := _DECIMAL.fullmatch(str(value.this))) else None
    return None


def _ask_for_names(values: tuple[str, ...], plan: Operator, env: Env) -> dict[str, str]:
    """The names of fields are constants that Spark computes while it looks at types, so no job runs."""
    if not values:
        return {}
    fields = ", ".join(f"coalesce(CAST({v} AS STRING), 'null'), 0" for v in values)
    probe = env.fresh("names")
    kinds = env.find_exact_types(Project(plan, (Output(probe, Opaque(f"named_struct({fields})")),)))
    names = values if kinds is None else read_field_names(kinds[probe])
    return dict(zip(values, names, strict=True))
