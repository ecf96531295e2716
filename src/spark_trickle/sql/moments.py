"""Query text -> the functions in it whose value depends on when or by whom they are asked."""

from __future__ import annotations

from spark_trickle.sql.functions import MOMENTS
from spark_trickle.sql.words import WordKind, split_words

_WITHOUT_BRACKETS = frozenset(
    ("current_date", "current_timestamp", "current_time", "current_user", "session_user", "localtimestamp")
)


def moments_in(query: str) -> tuple[str, ...]:
    words = split_words(query)
    found = []
    for at, word in enumerate(words):
        name = word.text.lower()
        called = at + 1 < len(words) and words[at + 1].text == "("
        qualified = at > 0 and words[at - 1].text == "."
        plain = word.kind is not WordKind.QUOTED and word.is_identifier and not qualified
        if plain and ((called and name in MOMENTS) or name in _WITHOUT_BRACKETS):
            found.append(name)
    return tuple(dict.fromkeys(found))
