"""Which files were loaded, and which of those that are there come next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.model.arriving import ArrivingFile
from spark_trickle.model.arrow import arrow_schema, single_weights, sum_weights
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.sources.interface import Arrivals, Overwritten, weigh_rows
from spark_trickle.txn.net import load_rows
from spark_trickle.txn.work import Work

LOADED, REJECTED = "LOADED", "REJECTED"


@dataclass(frozen=True)
class Entry:
    """A file that was looked at: `rows` came to the table, and `rejected` records did not."""

    file: ArrivingFile
    status: str
    rows: int
    rejected: int
    loaded_at: datetime


class Ledger:
    """All entries as they are stored; those of few files are looked up."""

    def __init__(self, table: Table, rows: pa.Table) -> None:
        self.table, self._rows = table, rows
        names, sizes = rows.column("file").to_pylist(), rows.column("bytes").to_pylist()
        times = rows.column("modified").cast(pa.int64()).to_pylist()
        self._known = {name: (n, sizes[n], times[n]) for n, name in enumerate(names)}

    def __contains__(self, address: str) -> bool:
        return address in self._known

    def is_same(self, file: ArrivingFile) -> bool:
        """Whether a file is as it was when it was loaded."""
        _, size, modified = self._known[file.address]
        return (size, modified) == (file.bytes, _micros(file.modified))

    def list_rejected(self) -> list[str]:
        """The files of which something was rejected."""
        bad = pc.or_(
            pc.equal(self._rows.column("status"), REJECTED), pc.greater(self._rows.column("rejected"), 0)
        )
        return list(self._rows.filter(bad).column("file").to_pylist())

    def find(self, address: str) -> Entry:
        n, size, _ = self._known[address]
        row = self._rows.slice(n, 1).to_pylist()[0]
        file = ArrivingFile(address, size, row["modified"])
        return Entry(file, row["status"], row["rows"], row["rejected"], row["loaded_at"])

    def replace(self, deleted: Iterable[str], inserted: Sequence[Entry]) -> pa.Table:
        """A change that takes entries away and adds others."""
        places = sorted(self._known[a][0] for a in deleted)
        removed = self._rows.drop_columns([WEIGHT]).take(pa.array(places, pa.int64()))
        return pa.concat_tables([weigh_rows(removed, -1), weigh_rows(self._make_rows(inserted), 1)])

    def _make_rows(self, entries: Sequence[Entry]) -> pa.Table:
        values: list[dict[str, Any]] = [
            {
                "file": e.file.address,
                "bytes": e.file.bytes,
                "modified": e.file.modified,
                "status": e.status,
                "rows": e.rows,
                "rejected": e.rejected,
                "loaded_at": e.loaded_at,
            }
            for e in entries
        ]
        schema = arrow_schema(self.table)
        return pa.Table.from_pylist(values, schema.remove(schema.get_field_index(WEIGHT)))


def read_ledger(work: Work, table: Table) -> Ledger:
    rows = load_rows(work, table, work.files(table))
    assert rows is not None  # its types are plain
    if rows.num_rows and pc.min(rows.column(WEIGHT)).as_py() < 0:
        rows = single_weights(sum_weights(table, rows))
    return Ledger(table, rows.combine_chunks())


def _micros(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


@dataclass(frozen=True)
class FileBatch:
    """What one sync does: files to load, of which some were loaded before, and files that wait for the next.

    `refused` were overwritten, and are only noted.
    """

    load: tuple[ArrivingFile, ...]
    replaced: frozenset[str] = frozenset()
    refused: tuple[ArrivingFile, ...] = ()
    waiting: tuple[ArrivingFile, ...] = ()
    forgotten: frozenset[str] = frozenset()  # rejected, and gone since

    @property
    def is_empty(self) -> bool:
        return not (self.load or self.refused or self.forgotten)


def choose_batch(arrivals: Arrivals, ledger: Ledger) -> FileBatch:
    """Files that are new or were overwritten, in their order, as many as one sync loads."""
    pending = [f for f in arrivals.files if f.address not in ledger]
    changed = [f for f in arrivals.files if f.address in ledger and not ledger.is_same(f)]
    refused: list[ArrivingFile] = []
    match arrivals.overwritten:
        case Overwritten.REPLACE:
            new = {f.address for f in (*pending, *changed)}
            pending = [f for f in arrivals.files if f.address in new]
        case Overwritten.REJECT:
            refused = changed
    most = arrivals.most
    load, rest = pending[:most], [*pending[most:], *refused[most:]]
    replaced = frozenset(f.address for f in load if f.address in ledger)
    return FileBatch(tuple(load), replaced, tuple(refused[:most]), tuple(rest))


def choose_all(arrivals: Arrivals, ledger: Ledger) -> FileBatch:
    """Everything that is there, once more; what was rejected and is gone is forgotten."""
    there = {f.address for f in arrivals.files}
    replaced = frozenset(a for a in there if a in ledger)
    return FileBatch(arrivals.files, replaced, forgotten=frozenset(ledger.list_rejected()) - there)
