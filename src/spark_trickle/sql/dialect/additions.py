"""What stream tables understand beyond Spark's SQL -> queries without it, and refusals that do not count.

Spark judges every query first. Of what it refuses only this much may still be a plan: a few constructs that
its grammar lacks, and correlated or recursive queries that its analyzer does not take. All else, such as a
condition that is missing, sqlglot might read in a way that nobody meant.
"""

from __future__ import annotations

from collections.abc import Callable

from spark_trickle.errors import QueryError, SqlSyntaxError, TrickleError
from spark_trickle.sql.lexer.words import Word, split_words

# Conditions of Spark's analyzer, or how they begin.
_TAKEN = (
    "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY",
    "SCALAR_SUBQUERY_IS_IN_GROUP_BY_OR_AGGREGATE_FUNCTION",
    "UNION_NOT_SUPPORTED_IN_RECURSIVE_CTE",
    "INVALID_RECURSIVE_REFERENCE",
    "INVALID_INLINE_TABLE.CANNOT_EVALUATE_EXPRESSION_IN_INLINE_TABLE",  # VALUES of the row around
    "NON_FOLDABLE_ARGUMENT",  # range() of the row beside
)
_COMPARE = frozenset(("=", "==", "<>", "!=", "<", ">", "<=", ">=", "<=>"))
_SETS = frozenset(("UNION", "INTERSECT", "EXCEPT", "MINUS", "ALL", "DISTINCT"))
_QUERIES = frozenset(("SELECT", "WITH", "FROM", "VALUES", "TABLE"))
_IN_WINDOWS = frozenset(("PARTITION", "ORDER", "ROWS", "RANGE", "DISTRIBUTE", "SORT", "CLUSTER"))


def may_be_taken(refusal: TrickleError) -> bool:
    """Whether a plan of ours may do what Spark would not; names that it lacks may be those of outer rows."""
    if isinstance(refusal, SqlSyntaxError):
        return False
    return not isinstance(refusal, QueryError) or refusal.condition.startswith(_TAKEN)


def without_additions(query: str) -> str:
    """The query without what Spark's grammar lacks; if Spark cannot read the rest, it is no query."""
    words = split_words(query)
    gone = [False] * len(words)
    for at in range(len(words)):
        for addition in _ADDITIONS:
            for place in range(at, addition(words, at)):
                gone[place] = True
    found, end = "", 0
    for word, left_out in zip(words, gone, strict=True):
        found += query[end : word.start] + ("" if left_out else query[word.start : word.end])
        end = word.end
    return found + query[end:]


def _read_upper(words: tuple[Word, ...], at: int) -> str:
    return words[at].upper if 0 <= at < len(words) else ""


def _skip_brackets(words: tuple[Word, ...], at: int) -> int:
    """The place after the bracket that closes the one at `at`."""
    depth = 0
    for place in range(at, len(words)):
        depth += {"(": 1, ")": -1}.get(_read_upper(words, place), 0)
        if depth == 0:
            return place + 1
    return len(words)


# Each tells where the addition ends that begins at a word; before it, if there is none.


def _match_quantifier(words: tuple[Word, ...], at: int) -> int:
    """> ALL (SELECT …)"""
    if _read_upper(words, at) not in ("ANY", "ALL", "SOME") or _read_upper(words, at - 1) not in _COMPARE:
        return at
    inside = at + 1
    while _read_upper(words, inside) == "(":
        inside += 1
    return at + 1 if inside > at + 1 and _read_upper(words, inside) in _QUERIES else at


def _match_distinct_on(words: tuple[Word, ...], at: int) -> int:
    """DISTINCT ON (a, b)"""
    on = (
        _read_upper(words, at) == "ON"
        and _read_upper(words, at - 1) == "DISTINCT"
        and _read_upper(words, at + 1) == "("
    )
    return _skip_brackets(words, at + 1) if on else at


def _match_by_name(words: tuple[Word, ...], at: int) -> int:
    """UNION ALL BY NAME"""
    named = (
        _read_upper(words, at) == "BY"
        and _read_upper(words, at + 1) == "NAME"
        and _read_upper(words, at - 1) in _SETS
    )
    return at + 2 if named else at


def _match_named_window(words: tuple[Word, ...], at: int) -> int:
    """OVER (w ORDER BY a)"""
    opened = _read_upper(words, at - 1) == "(" and _read_upper(words, at - 2) in ("OVER", "AS")
    name = words[at].is_identifier and _read_upper(words, at) not in _IN_WINDOWS | _QUERIES
    return at + 1 if opened and name and _read_upper(words, at + 1) in _IN_WINDOWS else at


def _match_joined_pivot(words: tuple[Word, ...], at: int) -> int:
    """JOIN t PIVOT (…) p ON …: Spark would pivot the join."""
    if _read_upper(words, at) not in ("PIVOT", "UNPIVOT"):
        return at
    start = at + 3 if _read_upper(words, at + 2) == "NULLS" else at + 1
    if _read_upper(words, start) != "(":
        return at
    end = _skip_brackets(words, start)
    following = [_read_upper(words, place) for place in range(end, end + 3)]
    return end if "ON" in following or "USING" in following else at


_ADDITIONS: tuple[Callable[[tuple[Word, ...], int], int], ...] = (
    _match_quantifier,
    _match_distinct_on,
    _match_by_name,
    _match_named_window,
    _match_joined_pivot,
)
