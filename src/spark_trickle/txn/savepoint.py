"""A transaction at some point -> the same transaction later, as if nothing had happened since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from spark_trickle.model.catalog import Catalog
from spark_trickle.model.commit import Definition, TableChange
from spark_trickle.txn.work import Work


@dataclass(frozen=True)
class Savepoint:
    """What a transaction had defined, changed and written."""

    catalog: Catalog
    definitions: tuple[Definition, ...]
    changes: Mapping[int, TableChange]
    written: int  # files and folders


def take_savepoint(work: Work) -> Savepoint:
    return Savepoint(work.catalog, tuple(work.definitions), dict(work.changes), len(work.written))


def roll_back(work: Work, savepoint: Savepoint) -> None:
    """Forget definitions and changes, and delete the files that were written since."""
    fresh = work.written[savepoint.written :]
    del work.written[savepoint.written :]  # a scratch shares the list with the work that it tries changes for
    work.catalog = savepoint.catalog
    work.definitions, work.changes = list(savepoint.definitions), dict(savepoint.changes)
    replace(work, written=fresh).discard()
