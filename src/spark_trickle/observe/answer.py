"""A table function's result: columns with their types, and rows; made without Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.model.table import Table
from spark_trickle.refresh.drop import find_stream_table
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.txn.functions import Argument, require_arguments
from spark_trickle.txn.work import Work

_LARGEST = 2**63 - 1  # that a catalog can count


@dataclass(frozen=True)
class Answer:
    """The columns and the rows of a table function; `dicts()` gives each row as a dict."""

    columns: dict[str, str]  # types by name
    rows: list[tuple[Any, ...]]

    def dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True)
class TableFunction:
    """`least` to `most` constants; the first may name a stream table."""

    answer: Callable[..., Answer]
    least: int = 0
    most: int = 0
    of_stream: bool = False

    def call(self, work: Work, name: str, arguments: Sequence[Argument]) -> Answer:
        require_arguments(name, tuple(arguments), self.least, self.most)
        given: list[Any] = [a if isinstance(a, str) else min(a, _LARGEST) for a in arguments]
        if self.of_stream and given:
            if not isinstance(given[0], str):
                raise InvalidDefinitionError(
                    f"trickle.{name} needs the name of a stream table",
                    f"Write trickle.{name}('my_stream_table').",
                )
            given[0] = stream_of(work, given[0])
        return self.answer(work, *given)


def stream_of(work: Work, name: str) -> Table:
    return find_stream_table(work, Cursor(name).read_name())
