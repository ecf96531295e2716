"""A plan -> the functions in it whose value depends on when or by whom they are asked, and its text then.

It is the plan that tells, not the query: views are part of it, and the names of columns are quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from spark_trickle.algebra.contents import list_expressions, map_expressions
from spark_trickle.algebra.expressions import Expr, Opaque
from spark_trickle.algebra.memo import memoize
from spark_trickle.algebra.operators import Operator
from spark_trickle.sql.dialect.spark_functions import MOMENTS, WITHOUT_BRACKETS
from spark_trickle.sql.lexer.words import Word, WordKind, split_words

_SPECIAL = re.compile(r"\s*(now|today|tomorrow|yesterday)\b.*", re.IGNORECASE | re.DOTALL)
_CASTS = frozenset(("CAST", "TRY_CAST"))
_MAKE_TIMES = frozenset(("DATE", "TIMESTAMP", "TO_DATE", "TO_TIMESTAMP", "TRY_TO_DATE", "TRY_TO_TIMESTAMP"))


def list_moments(plans: Iterable[Operator]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for text in _list_texts(plans) for name in read_moments(text)))


def list_words(plans: Iterable[Operator]) -> frozenset[str]:
    """The functions, types and keywords in the expressions of plans, in lower case; columns are quoted."""
    words = (word for text in _list_texts(plans) for word in split_words(text))
    return frozenset(word.text.lower() for word in words if word.kind is WordKind.NAME)


def _list_texts(plans: Iterable[Operator]) -> Iterator[str]:
    return (e.sql for plan in plans for op in plan.walk() for e in list_expressions(op))


def read_moments(text: str) -> Iterator[str]:
    words = split_words(text)
    for at, word in enumerate(words):
        if word.kind is WordKind.NAME and _is_call(words, at):
            yield word.text.lower()
        special = _SPECIAL.fullmatch(word.text) if word.kind is WordKind.STRING else None
        if special and _is_cast(words, at):
            yield special[1].lower()


_AT = {  # what the functions of the clock answer at a moment
    **dict.fromkeys(("now", "current_timestamp"), "{}"),
    **dict.fromkeys(("current_date", "curdate"), "CAST({} AS DATE)"),
    "localtimestamp": "CAST({} AS TIMESTAMP_NTZ)",
    "unix_timestamp": "unix_timestamp({})",
}
CLOCKS = frozenset(_AT)
_SPECIAL_AT = {
    "now": "{}",
    "today": "date_trunc('DAY', {})",
    "tomorrow": "date_trunc('DAY', {}) + INTERVAL '1' DAY",
    "yesterday": "date_trunc('DAY', {}) - INTERVAL '1' DAY",
}


def stop_clock(plan: Operator, moment: datetime) -> Operator:
    """The same plan with the clock standing still."""

    def change(expr: Expr) -> Expr:
        text = fix_moment(expr.sql, moment)
        return expr if text == expr.sql else Opaque(text, expr.columns)

    @memoize
    def visit(op: Operator) -> Operator:
        return map_expressions(op.with_inputs(tuple(visit(child) for child in op.inputs)), change)

    return visit(plan)


def fix_moment(text: str, moment: datetime) -> str:
    """The same SQL with the clock standing still, so that all of its parts see one moment."""
    at = f"TIMESTAMP '{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}+00:00'"
    words, parts, end = split_words(text), list[str](), 0
    for n, word in enumerate(words):
        found = _fix_word(words, n)
        if found is not None:
            form, last = found
            parts += [text[end : word.start], form.format(at)]
            end = words[last].end
    return "".join([*parts, text[end:]])


def _fix_word(words: tuple[Word, ...], at: int) -> tuple[str, int] | None:
    """How a word that asks the clock is written for a moment, and the last word that belongs to it."""
    word, name = words[at], words[at].text.lower()
    if word.kind is WordKind.STRING:
        special = _SPECIAL.fullmatch(word.text)
        return (_SPECIAL_AT[special[1].lower()], at) if special and _is_cast(words, at) else None
    if word.kind is not WordKind.NAME or name not in _AT:
        return None
    if [w.upper for w in words[at + 1 : at + 3]] == ["(", ")"]:
        return _AT[name], at + 2
    before, after = (words[i].upper if 0 <= i < len(words) else "" for i in (at - 1, at + 1))
    bare = name in WITHOUT_BRACKETS and before not in (".", "AS") and after not in (".", "(")
    return (_AT[name], at) if bare else None


def _is_call(words: tuple[Word, ...], at: int) -> bool:
    """Without arguments unix_timestamp() is of now."""
    name, after = words[at].text.lower(), [w.upper for w in words[at + 1 : at + 3]]
    return after[:1] == ["("] and (name in MOMENTS or (name == "unix_timestamp" and after[1:] == [")"]))


def _is_cast(words: tuple[Word, ...], at: int) -> bool:
    """Whether a text is made a time of: CAST('today' AS DATE), date('today')."""
    before = [w.upper for w in words[max(at - 2, 0) : at]]
    after = [w.upper for w in words[at + 1 : at + 3]]
    if len(before) < 2 or before[1] != "(":
        return False
    if before[0] in _CASTS:
        return len(after) == 2 and after[1].startswith(("DATE", "TIMESTAMP"))
    return before[0] in _MAKE_TIMES
