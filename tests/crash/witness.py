"""What can be seen of a warehouse from outside: its rows, its change feed, and its files on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_trickle.session import Trickle

if TYPE_CHECKING:
    from tests.conftest import Location

Bag = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class State:
    """One snapshot, as a user sees it."""

    snapshot: int
    tables: dict[str, list[tuple[Any, ...]]]


def state(tr: Trickle) -> State:
    names = [r.table_name for r in tr.sql("SELECT table_name FROM trickle.tables()").collect()]
    return State(tr.snapshot, {name: table_rows(tr, name) for name in sorted(names)})


def table_rows(tr: Trickle, name: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, tr.table(name).collect()), key=repr)


def feed_sum(tr: Trickle, table: str, after: int, upto: int) -> dict[tuple[Any, ...], int]:
    """What the change feed adds up to; a row that came and went leaves nothing."""
    total: Bag = Counter()
    for row in tr.changes(table, after=after, upto=upto).collect():
        *values, kind, _, _ = row
        total[tuple(values)] += -1 if kind in ("delete", "update_preimage") else 1
    return ordered(total)


def ordered(changes: Bag) -> dict[tuple[Any, ...], int]:
    """A sum of changes without what cancelled out."""
    return {row: n for row, n in sorted(changes.items(), key=repr) if n}


def bag(found: Iterable[tuple[Any, ...]]) -> Bag:
    return Counter(found)


def data_folder(location: Location) -> Path:
    return Path(location.data_path or f"{location.path}/data")


def files_on_disk(location: Location) -> dict[str, int]:
    """Every file below the data folder, checksums and leftovers included, with its size; not its marker."""
    top = data_folder(location)
    found = [p for p in sorted(top.rglob("*")) if p.is_file() and p.parent.name != "_trickle"]
    return {str(p.relative_to(top)): p.stat().st_size for p in found}


def files_of_tables(tr: Trickle, location: Location) -> set[str]:
    """The files that the newest snapshot consists of."""
    top = data_folder(location)
    tables = tr.sql("SELECT concat_ws('.', schema_name, table_name) FROM trickle.tables()").collect()
    return {
        str(Path(row.file).relative_to(top))
        for (table,) in tables
        for row in tr.sql(f"SELECT file FROM trickle.files('{table}')").collect()
    }


def without_checksums(files: set[str]) -> set[str]:
    """Hadoop keeps a checksum beside each file that the executors write."""
    return {f for f in files if not f.endswith(".crc")}
