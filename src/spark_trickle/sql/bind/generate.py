"""Functions that make rows -> a Generate: LATERAL VIEW, LATERAL, and functions that stand alone in FROM."""

from __future__ import annotations

from sqlglot import exp

from spark_trickle.algebra.expressions import Expr, integer
from spark_trickle.algebra.operators import Constant, Generate, Operator
from spark_trickle.errors import InvalidDefinitionError, UnsupportedError
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.expressions import parse_expression, to_expr
from spark_trickle.sql.bind.given import carry_values, mentions_given
from spark_trickle.sql.bind.relations import read_column_names, read_relation_name
from spark_trickle.sql.bind.resolve import resolve
from spark_trickle.sql.bind.scope import Relation, Scope, make_scope
from spark_trickle.sql.dialect.spark import name_of, sql_of
from spark_trickle.sql.dialect.spark_functions import GENERATORS


def is_generator(node: exp.Expr) -> bool:
    return name_of(node) in GENERATORS


def bind_generator(
    rows: Relation, call: exp.Expr, alias: exp.TableAlias | None, outer: bool, env: Env
) -> Relation:
    """Each row so far with every row that the function makes of it."""
    node, own = _read_generator(call)
    resolved = resolve(node, rows.scope, env)
    if mentions_given(resolved, env):
        rows = carry_values(rows, env)
    generator = to_expr(resolved)
    written = read_column_names(alias)
    names, new = name_generated(rows.plan, generator, outer, env, written)
    if written and len(written) != len(names):
        raise InvalidDefinitionError(
            f"{len(written)} names for {len(names)} columns of {name_of(call)}", "Name every column."
        )
    made = make_scope(read_relation_name(alias), tuple(zip(written or own or names, new, strict=True)))
    plan = Generate(rows.plan, generator, new, outer)
    return Relation(plan, rows.scope.join_scope(made), rows.given)


def bind_table_function(call: exp.Expr, alias: exp.TableAlias | None, env: Env) -> Relation:
    """A function in FROM makes its rows of one row without columns."""
    one = Relation(Constant((env.fresh("one"),), ((integer(1),),)), Scope(outer=env.outer))
    if alias is None or not alias.name:
        alias = exp.TableAlias(
            this=exp.to_identifier(name_of(call)), columns=alias.args.get("columns") if alias else None
        )
    return bind_generator(one, call, alias, False, env)


def name_generated(
    plan: Operator, generator: Expr, outer: bool, env: Env, written: list[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What Spark calls the columns of a generator, and what the tree does."""
    if env.trial and written:
        names = tuple(written)
    elif (kinds := env.find_exact_types(Generate(plan, generator, (), outer))) is None:
        names = ("col",)
    else:
        known = set(plan.columns)
        names = tuple(n for n in kinds if n not in known)
    return names, tuple(env.fresh(n) for n in names)


def _read_generator(call: exp.Expr) -> tuple[exp.Expr, tuple[str, ...]]:
    """The call as Spark takes it in LATERAL VIEW, and the names of its columns where they are others."""
    if is_generator(call):
        return call, ()
    if name_of(call) == "range":
        return _write_range(call), ("id",)
    raise UnsupportedError(
        f"the table function {name_of(call) or sql_of(call)} in a stream table",
        "Use range or a generator such as explode, or VALUES.",
    )


def _write_range(call: exp.Expr) -> exp.Expr:
    """range(end), range(start, end), range(start, end, step): a row for each number before the end."""
    arguments = [f"CAST({sql_of(a)} AS BIGINT)" for a in call.expressions]
    if not 1 <= len(arguments) <= 4:
        raise InvalidDefinitionError("range() takes one to four numbers", "Write range(start, end, step).")
    start, end = (arguments[0], arguments[1]) if len(arguments) > 1 else ("CAST(0 AS BIGINT)", arguments[0])
    step = arguments[2] if len(arguments) > 2 else "CAST(1 AS BIGINT)"
    up, down = f"({step} > 0 AND {start} < {end})", f"({step} < 0 AND {start} > {end})"
    last = f"CASE WHEN {step} > 0 THEN {end} - 1 ELSE {end} + 1 END"
    some = f"CASE WHEN {up} OR {down} THEN sequence({start}, {last}, {step}) END"
    return exp.Anonymous(this="explode", expressions=[parse_expression(some, frozenset())])
