"""What a transaction looked at, table by table, so that rows which others changed can be held against it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace

from spark_trickle.spark.frames import Frame

# Rows of a table, and conditions -> the rows for which one of the conditions holds.
Meet = Callable[[Frame, Sequence[str]], Frame]


@dataclass(frozen=True)
class TableRead:
    """Rows of one table that statements or queries looked at: all of them, unless `meet` tells which."""

    by_statement: bool = False  # an UPDATE, a DELETE or a MERGE chose by them what to change
    meet: Meet | None = None
    conditions: tuple[str, ...] = ()


@dataclass
class ReadSet:
    """Everything that a transaction looked at so far."""

    _known: dict[tuple[int, Hashable], TableRead] = field(default_factory=dict)
    _everywhere: bool = False  # it asked the warehouse about itself; the answer may be about any table

    def note_table(self, table_id: int, by_statement: bool = False) -> None:
        self._known[table_id, by_statement] = TableRead(by_statement)

    def note_all_tables(self) -> None:
        self._everywhere = True

    def note_condition(self, table_id: int, form: Hashable, read: TableRead) -> None:
        """Conditions of one form, such as those of plain UPDATEs, are asked together."""
        known = self._known.get((table_id, form))
        conditions = dict.fromkeys((*(known.conditions if known else ()), *read.conditions))
        self._known[table_id, form] = replace(known or read, conditions=tuple(conditions))

    def list_reads(self, table_id: int) -> tuple[TableRead, ...]:
        found = [read for (id, _), read in self._known.items() if id == table_id]
        return (*found, TableRead()) if self._everywhere else tuple(found)
