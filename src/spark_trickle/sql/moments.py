"""A plan -> the functions in it whose value depends on when or by whom they are asked.

It is the plan that tells, not the query: views are part of it, and the names of columns are quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from spark_trickle.algebra.operator import Operator
from spark_trickle.algebra.prune import expressions
from spark_trickle.sql.functions import MOMENTS
from spark_trickle.sql.words import Word, WordKind, split_words

_SPECIAL = re.compile(r"\s*(now|today|tomorrow|yesterday)\b.*", re.IGNORECASE | re.DOTALL)
_CASTS = frozenset(("CAST", "TRY_CAST"))
_MAKE_TIMES = frozenset(("DATE", "TIMESTAMP", "TO_DATE", "TO_TIMESTAMP", "TRY_TO_DATE", "TRY_TO_TIMESTAMP"))


def moments_of(plans: Iterable[Operator]) -> tuple[str, ...]:
    texts = (e.sql for plan in plans for op in plan.walk() for e in expressions(op))
    return tuple(dict.fromkeys(name for text in texts for name in moments_in(text)))


def moments_in(text: str) -> Iterator[str]:
    words = split_words(text)
    for at, word in enumerate(words):
        if word.kind is WordKind.NAME and _is_call(words, at):
            yield word.text.lower()
        special = _SPECIAL.fullmatch(word.text) if word.kind is WordKind.STRING else None
        if special and _is_cast(words, at):
            yield special[1].lower()


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
