"""Messages about rows of one table, in order -> where each value lies in their bytes, column by column.

There is no object for a value, a row or a message: positions are arrays, one for each column, and all rows of
a column are read in one step. What is not as it should be goes to the decoder of single messages, which says
where the mistake is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_trickle.errors import WalDecodeError
from spark_trickle.sources.postgres.pgoutput import decode_message

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Marks = npt.NDArray[np.bool_]

INSERT, UPDATE, DELETE = b"IUD"
TEXT, NULL, UNCHANGED, ABSENT = b"tnu\0"
_KEY, _OLD, _NEW = b"KON"
_RELATION = 5  # bytes of the kind of a message and of the id of its table
_LENGTH = 4


@dataclass(frozen=True)
class Layout:
    """Of how many values the rows of a table consist in the log, and the places of those that we want."""

    width: int
    columns: tuple[int, ...]


@dataclass
class Texts:
    """Values of one column in the order of the messages; `kinds` says whether there is a text at all.

    The texts lie in the bytes in the same order, and do not overlap.
    """

    data: pa.Buffer
    starts: Numbers
    ends: Numbers
    kinds: Bytes

    def take(self, places: Numbers) -> pa.Array:
        """The texts of some messages; NULL where there is none."""
        # Every second entry is what lies between two texts: so the bytes need not be cut before the copy.
        bounds = np.empty(2 * len(self.starts) + 1, np.int64)
        bounds[0:-1:2], bounds[1::2] = self.starts, self.ends
        bounds[-1] = bounds[-2] if len(self.starts) else 0
        cut = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), self.data]
        )
        return cut.take(pa.array(2 * places, mask=self.kinds[places] != TEXT))


@dataclass
class Messages:
    """What happened, message by message; `before` has only the columns that it was asked for."""

    actions: Bytes
    has_before: Marks
    whole_before: Marks  # the old row is logged with all of its values
    before: dict[int, Texts]
    after: list[Texts]

    def __len__(self) -> int:
        return len(self.actions)


def locate_values(
    width: int, before: Sequence[int], parts: Sequence[tuple[Layout, Sequence[bytes]]]
) -> Messages:
    """Find the values of `width` columns, and of some of them also the old ones.

    Each part of the messages has its own layout, and at least one message.
    """
    data = b"".join(m for _, messages in parts for m in messages)
    found = _Places(data, sum(len(messages) for _, messages in parts), width, before)
    for layout, messages in parts:
        if not found.add(layout, messages):
            raise _make_error(messages)
    return found.rows


class _Places:
    """Arrays for all messages, which are filled part by part."""

    def __init__(self, data: bytes, count: int, width: int, before: Sequence[int]) -> None:
        self.done = self.end = 0
        self.bytes = np.frombuffer(data, np.uint8)
        self.lengths = _view_numbers(data, ">i4", _LENGTH)
        self.widths = _view_numbers(data, ">u2", 2)
        buffer = pa.py_buffer(data)

        def texts() -> Texts:
            empty = np.zeros(count, np.int64)
            return Texts(buffer, empty, empty.copy(), np.full(count, ABSENT, np.uint8))

        self.rows = Messages(
            np.zeros(count, np.uint8),
            np.zeros(count, np.bool_),
            np.zeros(count, np.bool_),
            {n: texts() for n in before},
            [texts() for _ in range(width)],
        )

    def add(self, layout: Layout, messages: Sequence[bytes]) -> bool:
        """Whether these messages are as they should be."""
        sizes = np.fromiter(map(len, messages), np.int64, len(messages))
        ends = self.end + np.cumsum(sizes)
        place = slice(self.done, self.done + len(messages))
        self.done, self.end = place.stop, int(ends[-1])
        try:
            return self._fill_layout(layout, place, ends - sizes, ends)
        except IndexError:  # a length that leads out of the bytes
            return False

    def _fill_layout(self, layout: Layout, place: slice, starts: Numbers, ends: Numbers) -> bool:
        rows = self.rows
        rows.actions[place] = actions = self.bytes[starts]
        part = self.bytes[starts + _RELATION]
        old = (part == _KEY) | (part == _OLD)
        rows.has_before[place], rows.whole_before[place] = old, part == _OLD
        new = actions != DELETE
        if not ((old | (part == _NEW)) & (new | old) & (~old | (actions != INSERT))).all():
            return False
        for texts in (*rows.before.values(), *rows.after):
            texts.starts[place] = texts.ends[place] = starts  # for messages without this half
        at = starts + _RELATION
        wanted = {layout.columns[n]: texts for n, texts in rows.before.items()}
        if not self._read_tuples(layout.width, at, np.flatnonzero(old), wanted, place.start):
            return False
        wanted = dict(zip(layout.columns, rows.after, strict=True))
        coming = np.flatnonzero(new)
        if not (self.bytes[at[coming]] == _NEW).all():
            return False
        return self._read_tuples(layout.width, at, coming, wanted, place.start) and bool((at == ends).all())

    def _read_tuples(
        self, width: int, at: Numbers, which: Numbers, wanted: dict[int, Texts], first: int
    ) -> bool:
        """Read one row of some of the messages, and move `at` behind it."""
        if not len(which):
            return True
        here = at[which] + 1  # the letter that says which half it is
        if not (self.widths[here] == width).all():
            return False
        here = here + 2
        target = which + first
        for column in range(width):
            kinds = self.bytes[here]
            is_text = kinds == TEXT
            if is_text.all():
                starts = here + 1 + _LENGTH
                ends = starts + self.lengths[here + 1]
            else:
                if not (is_text | (kinds == NULL) | (kinds == UNCHANGED)).all():
                    return False
                starts = here + 1
                ends = starts.copy()
                starts[is_text] += _LENGTH
                ends[is_text] = starts[is_text] + self.lengths[here[is_text] + 1]
            if (ends < starts).any():
                return False
            if (texts := wanted.get(column)) is not None:
                texts.starts[target], texts.ends[target], texts.kinds[target] = starts, ends, kinds
            here = ends
        at[which] = here
        return True


def _view_numbers(data: bytes, kind: str, size: int) -> Numbers:
    """The number that begins at each byte."""
    found: Numbers = np.ndarray((max(len(data) - size + 1, 0),), kind, data, strides=(1,))
    return found


def _make_error(messages: Sequence[bytes]) -> WalDecodeError:
    for message in messages:
        try:
            decode_message(message)
        except WalDecodeError as error:
            return error
    return WalDecodeError("the values of a row do not match the columns of its table, or are not text", 0)
