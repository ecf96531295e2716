"""A query of one table -> the condition that every row must meet which it looks at."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.sql.lexer.words import Word, split_words
from spark_trickle.sql.names.references import find_references

# Words of queries that look at more than the rows of one table for which their WHERE holds.
_MORE = {"WITH", "UNION", "INTERSECT", "EXCEPT", "MINUS", "JOIN", "LATERAL", "PIVOT", "UNPIVOT", "|>"}
_ENDS_WHERE = {
    "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW", "QUALIFY", ";",
}  # fmt: skip


@dataclass(frozen=True)
class SingleRead:
    """The table, what stands after FROM, and what stands after WHERE."""

    parts: tuple[str, ...]
    relation: str
    condition: str


def find_single_read(sql: str) -> SingleRead | None:
    """None if the query is not plainly of one table, or has no WHERE."""
    words, references = split_words(sql), find_references(sql)
    uppers = [w.upper for w in words]
    if uppers.count("SELECT") != 1 or uppers[0] != "SELECT" or _MORE & set(uppers) or len(references) != 1:
        return None
    reference = references[0]
    where = _skip_alias(words, reference.end)
    if reference.is_function or reference.at is not None or uppers[where : where + 1] != ["WHERE"]:
        return None
    end = _find_end_of_condition(words, where + 1)
    if end == where + 1:
        return None
    relation = sql[words[reference.start].start : words[where - 1].end]
    return SingleRead(reference.parts, relation, sql[words[where + 1].start : words[end - 1].end])


def _skip_alias(words: tuple[Word, ...], at: int) -> int:
    if at < len(words) and words[at].upper == "AS":
        return at + 2
    is_alias = at < len(words) and words[at].is_identifier and words[at].upper not in {"WHERE", *_ENDS_WHERE}
    return at + 1 if is_alias else at


def _find_end_of_condition(words: tuple[Word, ...], start: int) -> int:
    depth = 0
    for at in range(start, len(words)):
        depth += {"(": 1, ")": -1}.get(words[at].upper, 0)
        if depth == 0 and words[at].upper in _ENDS_WHERE:
            return at
    return len(words)
