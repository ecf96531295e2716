"""What surrounds a captured table -> whether all of its changes can have been seen.

Some things change a table, or blind its triggers, and leave no trace but a new version of a row of the
server's own catalog: a trigger that was disabled for a while, a column that ALTER TABLE computed anew, a
partition that came with its rows. So versions are noted when a capture begins, and compared at each reading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_trickle.sources.postgres.capture import Capture
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.discover import SourceTable
from spark_trickle.sources.postgres.parts import Parts
from spark_trickle.sources.postgres.surroundings import Surroundings, TriggerFound, look_around


@dataclass(frozen=True)
class TableMarks:
    """Versions of the columns of a table, the files that its rows are in, and its parts."""

    columns: tuple[str, ...]
    files: tuple[str, ...]
    parts: Parts

    def is_rewritten(self, now: TableMarks) -> bool:
        """VACUUM FULL only gives new files, SET DEFAULT only new versions; ALTER … TYPE … USING does both."""
        return self.has_moved(now) and not set(self.columns) <= set(now.columns)

    def has_moved(self, now: TableMarks) -> bool:
        """Whether a file is gone, also that of a partition."""
        return not set(self.files) <= set(now.files)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> TableMarks:
        return cls(tuple(kept["columns"]), tuple(kept["files"]), Parts.from_json(kept["parts"]))


@dataclass(frozen=True)
class Marks:
    triggers: tuple[str, ...]
    table: TableMarks


def table_marks(connection: Connection, table: SourceTable, names: Sequence[str]) -> TableMarks:
    """Take them together with the copy, and give them to `log_gap` later."""
    return marks_in(look_around(connection, [table.oid])[table.oid], names)


def marks_in(found: Surroundings, names: Sequence[str]) -> TableMarks:
    return TableMarks(found.column_marks(names), found.files, found.parts(names))


def read_marks(connection: Connection, capture: Capture, names: Sequence[str]) -> Marks:
    """What a capture of these columns rests on, row triggers on partitions included."""
    found = look_around(connection, [capture.source.oid], capture.schema)[capture.source.oid]
    return Marks(tuple(t.mark for t in _find_firing(capture, found)), marks_in(found, names))


def find_gap(capture: Capture, noted: Marks, names: Sequence[str], found: Surroundings) -> str | None:
    """Why changes may have been missed since the marks were noted."""
    firing, now = _find_firing(capture, found), marks_in(found, names)
    if not set(noted.triggers) <= {t.mark for t in firing}:
        return "its triggers were disabled, changed or removed"
    if noted.table.is_rewritten(now):
        return "its rows were rewritten by ALTER TABLE"
    if reason := noted.table.parts.find_loss(now.parts):
        return reason
    if capture.mode == "statement" and found.related:
        return "it now has parent or child tables, so statements on these change it too"
    if capture.source.kind != "p":
        return None
    ours = [t for t in found.triggers if t.function in _name_functions(capture)]
    attached = [t.name for t in ours if t.suspicious and t.mark not in noted.triggers]
    return _describe_attached(attached)


def log_gap(table: SourceTable, noted: TableMarks, now: TableMarks, found: Surroundings) -> str | None:
    """Why the log may not show all changes of a table.

    It is silent about what ALTER TABLE does to rows, and about TRUNCATE of a single partition.
    """
    if noted.is_rewritten(now):
        return "its rows were rewritten by ALTER TABLE"
    if reason := noted.parts.find_loss(now.parts):
        return reason
    if table.kind != "p":
        return None
    if noted.has_moved(now):
        return "one of its partitions was emptied or rewritten"
    return _describe_attached(
        [link.name for link in found.links if link.suspicious and link.file not in noted.files]
    )


def _describe_attached(names: Sequence[str]) -> str | None:
    return (
        f'partition "{names[0]}" was attached with rows, or emptied without the triggers noticing'
        if names
        else None
    )


def _find_firing(capture: Capture, found: Surroundings) -> list[TriggerFound]:
    return [t for t in found.triggers if t.fires and t.function in _name_functions(capture)]


def _name_functions(capture: Capture) -> set[str]:
    return {capture.function_name(event) for event in capture.events}
