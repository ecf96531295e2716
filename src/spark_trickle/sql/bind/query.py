"""A query -> a tree of operators, with the names of its columns."""

from __future__ import annotations

from sqlglot import exp

from spark_trickle.errors import UnsupportedError
from spark_trickle.sql.bind.attempts import number_queries
from spark_trickle.sql.bind.ctes import bind_ctes
from spark_trickle.sql.bind.derived import bind_values
from spark_trickle.sql.bind.env import Binder, Env
from spark_trickle.sql.bind.from_clause import bind_from
from spark_trickle.sql.bind.given import repeat_for_values
from spark_trickle.sql.bind.limit import bind_order_and_limit
from spark_trickle.sql.bind.named_windows import read_query
from spark_trickle.sql.bind.scope import Bound, Find, Relation, Types
from spark_trickle.sql.bind.select import bind_select
from spark_trickle.sql.bind.set_operations import bind_set_operation
from spark_trickle.sql.bind.subquery import compute_subqueries, filter_by_subquery
from spark_trickle.sql.dialect.depth import room_to_recurse
from spark_trickle.sql.lexer.places import place_errors


def bind(sql: str, find: Find, types: Types, home: str, exact_floats: bool = False) -> Bound:
    """The tree of a whole query."""
    env = Env(find, types, home, SparkBinder(), exact_floats=exact_floats)
    with room_to_recurse():
        return bind_query(number_queries(read_query(sql), env), env)


def bind_query(query: exp.Query, env: Env) -> Bound:
    """The one dispatch over the kinds of queries."""
    env = bind_ctes(query.args.get("with_"), env)
    match query:
        case exp.Subquery():
            return bind_order_and_limit(query, bind_query(query.this, env), env)
        case exp.SetOperation():
            return bind_set_operation(query, env)
        case exp.Values():
            return repeat_for_values(bind_values(query, env), env)
        case exp.Select():
            with place_errors(query):
                return bind_select(query, env)
    raise UnsupportedError(f"{type(query).__name__.upper()} in a stream table", "Write it as a SELECT.")


class SparkBinder(Binder):
    """How the parts of a query that contain each other are bound."""

    def bind_query(self, query: exp.Query, env: Env) -> Bound:
        return bind_query(query, env)

    def bind_from(self, select: exp.Select, env: Env) -> Relation:
        return bind_from(select, env)

    def filter_by_subquery(self, condition: exp.Expr, rows: Relation, env: Env) -> Relation:
        return filter_by_subquery(condition, rows, env)

    def compute_subqueries(self, node: exp.Expr, rows: Relation, env: Env) -> tuple[exp.Expr, Relation]:
        return compute_subqueries(node, rows, env)
