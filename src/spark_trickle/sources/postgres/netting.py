"""Rows of the log, in order -> which of them come, which go, and what the mirror has to add.

Where the log holds whole old rows (REPLICA IDENTITY FULL), these go and the new ones come, as they are. Where
it holds only the key of an old row, the first that happened to a key says whether the mirror's row goes, and
the last says whether a row is there now: so of a row that goes the old image is looked up once, by its key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
import pyarrow as pa

from spark_trickle.errors import InternalError
from spark_trickle.sources.postgres.tuples import DELETE, INSERT, UNCHANGED, UPDATE, Messages, Numbers, Texts

Key = tuple[bytes | None, ...]


@dataclass(frozen=True)
class PartialTuples:
    """New rows of which the log did not repeat all values: those are in the mirror, under an old key."""

    columns: tuple[pa.Array, ...]
    unchanged: tuple[tuple[int, ...], ...]  # for each row, the numbers of these columns
    old_keys: tuple[Key, ...]


@dataclass(frozen=True)
class NetRows:
    """Columns of texts: whole rows that come, then whole rows that go; keys of rows that go; partial rows."""

    columns: tuple[pa.Array, ...]
    inserted: int
    removed: tuple[Key, ...]
    partial: PartialTuples


def net_of_whole_rows(rows: Messages) -> NetRows:
    """For tables whose old rows are logged whole."""
    if not rows.whole_before[rows.actions != INSERT].all():
        raise InternalError("the log has only the key of a row, although the table has REPLICA IDENTITY FULL")
    _repeat_old_values(rows)
    inserted, deleted = np.flatnonzero(rows.actions != DELETE), np.flatnonzero(rows.actions != INSERT)
    columns = tuple(
        pa.concat_arrays([texts.take(inserted), rows.before[n].take(deleted)])
        for n, texts in enumerate(rows.after)
    )
    return NetRows(columns, len(inserted), (), PartialTuples(tuple(c[:0] for c in columns), (), ()))


def net_by_key(rows: Messages, identity: Sequence[int]) -> NetRows:
    """For tables of whose old rows only the key is logged, and only when it changes or the row goes."""
    _repeat_old_values(rows)
    new = old = _make_keys([rows.after[n] for n in identity])
    if rows.has_before.any():
        before = _make_keys([rows.before[n] for n in identity])
        old = [b if has else a for a, b, has in zip(new, before, rows.has_before.tolist(), strict=True)]
    removed, there = _first_and_last(rows, old, new)
    history = _trace_history(rows, old, new)
    missing = history.missing[there].any(axis=1)
    whole, partial = there[~missing], there[missing]
    columns = tuple(t.take(history.find_sources(whole, n)) for n, t in enumerate(rows.after))
    return NetRows(
        columns,
        len(whole),
        removed,
        PartialTuples(
            tuple(t.take(history.find_sources(partial, n)) for n, t in enumerate(rows.after)),
            tuple(tuple(np.flatnonzero(m).tolist()) for m in history.missing[partial]),
            tuple(old[n] for n in history.roots[partial].tolist()),
        ),
    )


def _repeat_old_values(rows: Messages) -> None:
    """Values that the new half of a message does not repeat because they are in its old half."""
    for n, old in rows.before.items():
        new = rows.after[n]
        same = (new.kinds == UNCHANGED) & rows.has_before
        if same.any():
            for to, of in ((new.starts, old.starts), (new.ends, old.ends), (new.kinds, old.kinds)):
                to[same] = of[same]


def _make_keys(columns: Sequence[Texts]) -> list[Key]:
    every = np.arange(len(columns[0].starts))
    return list(zip(*(c.take(every).to_pylist() for c in columns), strict=True))


def _first_and_last(rows: Messages, old: list[Key], new: list[Key]) -> tuple[tuple[Key, ...], Numbers]:
    """The keys whose row in the mirror goes, and the messages whose new row is the last of its key."""
    if not (rows.has_before & (rows.actions == UPDATE)).any() and len(set(old)) == len(old):
        goes = (rows.actions != INSERT).tolist()  # each key was touched once, as most are
        return tuple(compress(old, goes)), np.flatnonzero(rows.actions != DELETE)
    happened: list[tuple[Key, bool, int]] = []  # key, whether a row goes first, the message if one comes last
    for n, (action, before, after) in enumerate(zip(rows.actions.tolist(), old, new, strict=True)):
        if action == INSERT:
            happened.append((after, False, n))
        elif action == DELETE:
            happened.append((before, True, -1))
        elif before == after:
            happened.append((after, True, n))
        else:
            happened += ((before, True, -1), (after, False, n))
    first = {key: goes for key, goes, _ in reversed(happened)}
    last = {key: n for key, _, n in happened}
    there = np.sort(np.fromiter((n for n in last.values() if n >= 0), np.int64))
    return tuple(key for key in last if first[key]), there


@dataclass
class _History:
    """For each message and column, the message that holds the text; `missing` where only the mirror has it.

    `roots` are the messages whose old key the row has in the mirror.
    """

    roots: Numbers
    sources: Numbers | None
    missing: np.ndarray[tuple[int, int], np.dtype[np.bool_]]

    def find_sources(self, places: Numbers, column: int) -> Numbers:
        return places if self.sources is None else self.sources[places, column]


def _trace_history(rows: Messages, old: list[Key], new: list[Key]) -> _History:
    missing = np.column_stack([texts.kinds == UNCHANGED for texts in rows.after])
    roots = np.arange(len(rows))
    incomplete = missing.any(axis=1)
    if not incomplete.any():
        return _History(roots, None, missing)
    previous = _find_previous(rows, old, new)
    sources = np.repeat(roots[:, None], len(rows.after), axis=1)
    for n in np.flatnonzero(incomplete).tolist():
        if (before := previous[n]) >= 0:
            gaps = missing[n].copy()
            sources[n, gaps], missing[n, gaps] = sources[before, gaps], missing[before, gaps]
            roots[n] = roots[before]
    return _History(roots, sources, missing)


def _find_previous(rows: Messages, old: list[Key], new: list[Key]) -> list[int]:
    """For each message the one that brought the row which it changes, or -1 if that is in the mirror."""
    live: dict[Key, int] = {}
    found = []
    for n, action in enumerate(rows.actions.tolist()):
        found.append(-1 if action == INSERT else live.pop(old[n], -1))
        if action != DELETE:
            live[new[n]] = n
    return found
