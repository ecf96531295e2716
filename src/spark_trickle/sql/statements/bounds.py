"""A WHERE text -> how many rows it can meet at most, when it fixes the whole key."""

from __future__ import annotations

from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.sql.lexer.words import Word, WordKind

_LITERALS = (WordKind.NUMBER, WordKind.STRING)


def count_most_key_rows(where: str, key: tuple[str, ...], qualifiers: tuple[str, ...] = ()) -> int | None:
    """The product of the values given for each key column; None if one of them is not fixed.

    `qualifiers` are the names by which the table itself is known in the condition.
    """
    cursor = Cursor(where)
    fixed: dict[str, int] = {}
    while True:
        first = cursor.at
        cursor.read_until("AND", "OR", "BETWEEN")
        if cursor.accept("BETWEEN"):
            cursor.read_until("AND", "OR")
            cursor.accept("AND")  # this one belongs to BETWEEN
            cursor.read_until("AND", "OR")
        if (found := _read_fixed_column(cursor.words[first : cursor.at], qualifiers)) is not None:
            fixed[found[0]] = min(found[1], fixed.get(found[0], found[1]))
        if cursor.done:
            break
        if not cursor.accept("AND"):
            return None
    product = 1
    for name in key:
        if name.lower() not in fixed:
            return None
        product *= fixed[name.lower()]
    return product


def _read_fixed_column(words: tuple[Word, ...], qualifiers: tuple[str, ...]) -> tuple[str, int] | None:
    """`column = constant` or `column IN (constants)` -> the column and the number of constants."""
    if len(words) >= 3 and words[1].text == "." and words[1].kind is WordKind.SYMBOL:
        if words[0].text.lower() not in {q.lower() for q in qualifiers}:
            return None
        words = words[2:]
    if len(words) < 3 or not words[0].is_identifier:
        return None
    name, rest = words[0].text.lower(), words[2:]
    if words[1].upper in ("=", "=="):
        if rest and rest[0].upper == "-":
            rest = rest[1:]
        return (name, 1) if len(rest) == 1 and rest[0].kind in _LITERALS else None
    if words[1].upper == "IN" and rest[0].upper == "(" and rest[-1].upper == ")":
        inside = rest[1:-1]
        plain = all(w.kind in _LITERALS or w.upper in (",", "-") for w in inside)
        return (name, sum(w.kind in _LITERALS for w in inside)) if plain and inside else None
    return None
