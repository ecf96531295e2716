"""Names that statements give and take: free ones, taken ones, and who reads what is behind them."""

from __future__ import annotations

import unicodedata
from collections import Counter

from spark_trickle.errors import (
    AlreadyExistsError,
    InUseError,
    InvalidDefinitionError,
    shorten_text,
)
from spark_trickle.model import commit
from spark_trickle.model.table import (
    WEIGHT,
    Relation,
    Table,
    View,
)
from spark_trickle.sql.statements import kinds as s
from spark_trickle.txn.work import Work

LONGEST_NAME = 255
LARGEST_COLUMN_COUNT = 1_000
_BLANK_LETTERS = "\u115f\u1160\u3164\uffa0\u2800"  # letters and symbols by their kind, and yet blank
_RESERVED = (WEIGHT, "_metadata", "_change_type", "_commit_version", "_commit_timestamp")


def free_name(work: Work, name: s.Name) -> tuple[str, str]:
    """Schema and name of something to be created; the schema must be there."""
    if len(name) > 2:
        raise InvalidDefinitionError(
            f'"{".".join(name)}" has too many parts', "Write schema.name, or just the name."
        )
    check_name(name[-1])
    schema = work.catalog.schema(name[0] if len(name) == 2 else work.place.schema)
    return schema.name, name[-1]


def make_room(work: Work, name: s.Name, noun: str, swap: bool, quiet: bool) -> bool:
    """Whether to go on: an existing relation stops it, is replaced, or is an error."""
    existing = work.catalog.find(name, work.place.schema)
    if existing is None:
        return True
    if quiet:
        return False
    if not swap or isinstance(existing, View) != (noun == "view"):
        raise AlreadyExistsError("view" if isinstance(existing, View) else "table", existing.full_name)
    if isinstance(existing, Table):
        existing = work.find_target(name)
        refuse_readers(work, existing, "replaced")
    drop_relation(work, existing)
    return True


def drop_relation(work: Work, relation: Relation) -> None:
    """A view, a table, or a stream table with the tables of its nodes."""
    if isinstance(relation, View):
        work.define(commit.DroppedView(relation))
        return
    for node in relation.stream.nodes if relation.stream else ():
        if (inner := work.catalog.table_by_id(node)) is not None:
            work.define(commit.DroppedTable(inner))
    work.define(commit.DroppedTable(relation))


def refuse_readers(
    work: Work,
    table: Table,
    change: str,
    columns: frozenset[int] | None = None,
    leaving: frozenset[int] = frozenset(),
) -> None:
    """Stream tables read this table, or these columns of it; unless they leave in the same statement."""
    if not work.place.settings.block_source_ddl:
        return
    readers = []
    for reader in work.catalog.find_readers(table):
        assert reader.stream is not None
        used = {c.column_id for s_ in reader.stream.sources if s_.table_id == table.id for c in s_.columns}
        if reader.id not in leaving and (columns is None or used & columns):
            readers.append(reader.full_name)
    if readers:
        raise InUseError(table.full_name, change, tuple(readers))


def refuse_view_readers(work: Work, view: View, leaving: frozenset[int] = frozenset()) -> None:
    """Stream tables that a view is part of could not be made anew without it."""
    if not work.place.settings.block_source_ddl:
        return
    streams = [(t, t.stream) for t in work.catalog.tables() if t.stream is not None and t.id not in leaving]
    readers = [t.full_name for t, stream in streams if any(i == view.id for i, _ in stream.views)]
    if readers:
        raise InUseError(view.full_name, "dropped", tuple(readers))


def check_name(name: str) -> None:
    """Nobody could tell a name that shows nothing from another, and no catalog stores a zero character."""
    if not name.strip():
        raise InvalidDefinitionError("a name is empty", "Give it at least one letter.")
    if not any(_is_visible(letter) for letter in name):
        raise InvalidDefinitionError("a name has only invisible characters", "Give it at least one letter.")
    if "\0" in name:
        raise InvalidDefinitionError(
            f'the name "{shorten_text(name)}" contains a NUL character', "Leave it out."
        )
    if len(name) > LONGEST_NAME:
        raise InvalidDefinitionError(
            f'the name "{shorten_text(name)}" has {len(name)} characters',
            f"Names have at most {LONGEST_NAME}.",
        )


def _is_visible(letter: str) -> bool:
    """Not a blank, a control or a format character, nor a mark without a letter to sit on."""
    return unicodedata.category(letter)[0] not in "ZCM" and letter not in _BLANK_LETTERS


def check_column_count(count: int) -> None:
    """Spark takes more, and then runs out of stack when such a table is read."""
    if count > LARGEST_COLUMN_COUNT:
        raise InvalidDefinitionError(
            f"{count} columns are too many for a table",
            f"A table has at most {LARGEST_COLUMN_COUNT} columns: use STRUCT columns, or several tables.",
        )


def check_column_names(names: list[str]) -> None:
    check_column_count(len(names))
    counts = Counter(n.lower() for n in names)
    for n in names:
        check_name(n)
        if counts[n.lower()] > 1:
            raise InvalidDefinitionError(
                f'column "{n}" appears more than once', "Give each column its own name."
            )
        if n.lower() in _RESERVED or n.lower().startswith("_trickle"):
            raise InvalidDefinitionError(f'the column name "{n}" is reserved', "Choose another name for it.")
