"""A query and a text for each table that it names -> the query with these texts in their places."""

from __future__ import annotations

from collections.abc import Callable

from spark_trickle.sql.lexer.words import Word, quote, split_words
from spark_trickle.sql.names.references import Reference, find_references


def replace_references(sql: str, replacement: Callable[[Reference], str | None]) -> str:
    """The query with each reference replaced by the text given for it; None leaves it to Spark."""
    words = split_words(sql)
    inserts: list[tuple[int, int, str]] = []  # start, end, text
    qualified: dict[tuple[str, ...], str] = {}
    taken: set[int] = set()
    references = find_references(sql)
    for reference in references:
        text = replacement(reference)
        if text is None:
            continue
        inserts.append((words[reference.start].start, words[reference.end - 1].end, text))
        taken.update(range(reference.start, reference.end))
        alias = _find_own_name(words, reference, references)
        if reference.alias_at is not None:
            place = words[reference.alias_at - 1].end
            inserts.append((place, place, f" AS {quote(alias)}"))
        if len(reference.parts) > 1 and _keeps_its_name(words, reference):
            qualified[tuple(p.lower() for p in reference.parts)] = alias
    inserts += _shorten_qualifiers(words, qualified, taken)
    return _apply_edits(sql, inserts)


def _find_own_name(words: tuple[Word, ...], reference: Reference, references: tuple[Reference, ...]) -> str:
    """The name that columns are reached by.

    Tables of one name in two schemas keep the schema in it, where the query tells them apart by it.
    """
    name = reference.parts[-1]
    alike = {
        tuple(p.lower() for p in r.parts)
        for r in references
        if r.alias_at is not None and r.parts[-1].lower() == name.lower()
    }
    taken = set(range(reference.start, reference.end))
    parts = tuple(p.lower() for p in reference.parts)
    told_apart = len(alike) > 1 and len(parts) > 1 and _shorten_qualifiers(words, {parts: name}, taken)
    return ".".join(reference.parts) if told_apart else name


def _keeps_its_name(words: tuple[Word, ...], reference: Reference) -> bool:
    """Whether the table is known by its own name: it has no alias, or one that is the same."""
    if reference.alias_at is not None:
        return True
    place = reference.end + (1 if reference.end < len(words) and words[reference.end].upper == "AS" else 0)
    return place < len(words) and words[place].text.lower() == reference.parts[-1].lower()


def _shorten_qualifiers(
    words: tuple[Word, ...], qualified: dict[tuple[str, ...], str], taken: set[int]
) -> list[tuple[int, int, str]]:
    """`s.t.column` becomes `t.column`: an alias has only one part."""
    found = []
    for parts, alias in qualified.items():
        span = 2 * len(parts)
        for at in range(len(words) - span):
            names = [w.text.lower() for w in words[at : at + span : 2]]
            dots = [w.text for w in words[at + 1 : at + span : 2]]
            inner = at > 0 and words[at - 1].text == "."
            if tuple(names) == parts and set(dots) == {"."} and at not in taken and not inner:
                found.append((words[at].start, words[at + span - 2].end, quote(alias)))
    return found


def _apply_edits(sql: str, edits: list[tuple[int, int, str]]) -> str:
    for start, end, text in sorted(edits, key=lambda e: (e[0], e[1]), reverse=True):
        sql = sql[:start] + text + sql[end:]
    return sql
