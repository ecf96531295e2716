"""A query -> the columns of the queries around it that it uses.

To find them, it is bound on trial: with these columns left open, so that its tree shows which ones it lacks.
On trial, every query inside is bound just once, and its own attempt is kept. So none is made again when the
query is bound for good, however deep queries are nested.
"""

from __future__ import annotations

from sqlglot import exp

from spark_trickle.algebra.prune import find_free_columns
from spark_trickle.sql.bind.env import Attempt, Env

_NUMBER = "number"


def number_queries(query: exp.Query, env: Env) -> exp.Query:
    """The same query, in which each query has a number; its copies keep it."""
    for part in query.find_all(exp.Query):
        part.meta[_NUMBER] = next(env.queries)
    return query


def keep_number(written: exp.Expr, query: exp.Query) -> exp.Query:
    """A query that stands for what was written."""
    query.meta.update(written.meta)
    return query


def try_query(query: exp.Query, env: Env) -> Attempt:
    """A query with the columns of the queries around it left open."""
    assert env.outer is not None
    attempt = Attempt(env.binder.bind_query(query, env.on_trial()), env.outer)
    if _NUMBER in query.meta:
        env.attempts[query.meta[_NUMBER], env.outer.shape] = attempt
    return attempt


def find_attempt(query: exp.Query, env: Env) -> Attempt:
    """The attempt that was made where names meant the same, or a new one."""
    assert env.outer is not None
    return env.attempts.get((query.meta.get(_NUMBER), env.outer.shape)) or try_query(query, env)


def find_outer_columns(query: exp.Query, env: Env) -> frozenset[str]:
    """The columns of the queries around that a query uses."""
    assert env.outer is not None
    attempt = find_attempt(query, env)
    now = dict(zip(attempt.outer.reachable, env.outer.reachable, strict=True))
    return frozenset(now[c] for c in find_free_columns(attempt.body.plan))
