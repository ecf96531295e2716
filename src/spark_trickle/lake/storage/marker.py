"""The marker of a data folder: which warehouse it belongs to, and the newest snapshot of its files.

The catalog alone cannot tell that it is older than the data beside it, or that the data belongs to another
catalog; whoever trusted it would take the files of others for rubbish. So both say who they are, and
they are compared when a warehouse is opened, at every commit, and before anything is deleted.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from spark_trickle.errors import WarehouseError, WarehouseMismatchError
from spark_trickle.model.catalog import Snapshot

MARKER_FOLDER = "_trickle"
_IDENTITY = "warehouse.json"
_NEWEST = "newest.json"

ADOPT = (
    "To let this catalog use these files, run trickle adopt, or connect with adopt=True; "
    "files that it does not know stay untouched."
)


@dataclass(frozen=True)
class Marker:
    """The warehouse that a data folder belongs to; its newest snapshot, unless a power cut lost that."""

    warehouse: str
    snapshot: int | None = None
    time: datetime | None = None
    session_id: str | None = None  # who committed it; older markers do not tell

    def is_of(self, known: Snapshot) -> bool:
        """Whether it names this very commit.

        Where a clock went back, two copies of a catalog give their next snapshots the same time.
        """
        same = self.session_id in (None, known.session_id) or known.session_id is None
        return same and self.time == known.time


def find_mismatch(
    marker: Marker | None, warehouse: str, newest: Snapshot, find: Callable[[int], Snapshot | None]
) -> tuple[str, str] | None:
    """Why a data folder and a catalog do not belong together, and what to do; None if they do.

    A commit is noted in the folder after it is in the catalog. So a catalog that made what is in the folder
    knows the snapshot that the folder names, as committed by the same session at the same time.
    """
    if marker is None:
        return (
            "it has no marker of this warehouse, so it is empty, not mounted, or another folder",
            f"Mount or restore it, or give the right data_path. {ADOPT}",
        )
    if marker.warehouse != warehouse:
        return (
            f"it belongs to warehouse {marker.warehouse}, but the catalog belongs to warehouse {warehouse}",
            f"Give the catalog of that warehouse, or another data_path; then connect again. {ADOPT}",
        )
    if marker.snapshot is None:
        return None
    if marker.snapshot > newest.id:
        return (
            f"it holds snapshot {marker.snapshot}, but the catalog ends with snapshot {newest.id}: "
            "the catalog is an older copy, or its -wal file is missing",
            f"Restore the newest catalog, with its -wal file. {ADOPT}",
        )
    known = newest if marker.snapshot == newest.id else find(marker.snapshot)
    if known is not None and not marker.is_of(known):
        return (
            f"another copy of the catalog committed snapshot {marker.snapshot} to it",
            f"Give each copy a data folder of its own: copy both, or use trickle backup. {ADOPT}",
        )
    return None


class MarkerFile:
    """The marker in a data folder, as one session reads and writes it."""

    def __init__(self, root: str, session_id: str) -> None:
        self.root = root
        self.session_id = session_id
        self._folder = Path(root) / MARKER_FOLDER

    def read(self) -> Marker | None:
        try:
            warehouse = json.loads((self._folder / _IDENTITY).read_bytes())["warehouse"]
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WarehouseError(
                f"the marker {self._folder / _IDENTITY} cannot be read: {error}",
                "Restore it from a backup of the data folder, or remove it and run trickle adopt.",
            ) from None
        # Written at every commit without waiting for the disk: after a power cut it may be empty.
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            newest = json.loads((self._folder / _NEWEST).read_bytes())
            if newest["warehouse"] == warehouse:
                return Marker(
                    warehouse,
                    int(newest["snapshot"]),
                    datetime.fromisoformat(newest["time"]),
                    newest.get("session"),
                )
        return Marker(warehouse)

    def claim(self, warehouse: str, newest: Snapshot) -> None:
        """Make the folder that of a warehouse, durably."""
        with self._explain_errors():
            self._folder.mkdir(parents=True, exist_ok=True)
            draft = self._write_draft({"warehouse": warehouse, "format": 1})
            with draft.open("rb") as written:
                os.fsync(written.fileno())
            draft.replace(self._folder / _IDENTITY)
            self.prepare(warehouse, newest).replace(self._folder / _NEWEST)

    def prepare(self, warehouse: str, newest: Snapshot) -> Path:
        """Write what `show` will show, so that a folder that cannot be written stops the commit."""
        values: dict[str, object] = {
            "warehouse": warehouse,
            "snapshot": newest.id,
            "time": newest.time.isoformat(),
            "session": newest.session_id,
        }
        with self._explain_errors():
            return self._write_draft(values)

    def show(self, draft: Path, newest: Snapshot) -> None:
        """The commit is done: if this fails, the next commit or connection makes up for it."""
        with suppress(OSError):
            shown = self.read()
            if shown is None or shown.snapshot is None or shown.snapshot < newest.id:
                draft.replace(self._folder / _NEWEST)
            draft.unlink(missing_ok=True)

    def remove_drafts(self, sessions: Collection[str]) -> None:
        """What sessions prepared before they died."""
        for draft in self._folder.glob("*.draft"):
            if draft.name.split("-")[0] in sessions:
                draft.unlink(missing_ok=True)

    def _write_draft(self, values: dict[str, object]) -> Path:
        """Under a name of its own: several threads commit on one connection."""
        draft = self._folder / f"{self.session_id}-{uuid.uuid4().hex[:8]}.draft"
        draft.write_text(json.dumps(values))
        return draft

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise WarehouseError(
                f"the data folder {self.root} cannot be written: {error.strerror}",
                "Check its permissions and the free space; nothing was committed.",
            ) from error


@dataclass(frozen=True)
class DataFolder:
    """A data folder in the hands of the warehouse that it belongs to."""

    marker: MarkerFile
    warehouse: str

    @property
    def session_id(self) -> str:
        return self.marker.session_id

    def require(self, newest: Snapshot, find: Callable[[int], Snapshot | None]) -> None:
        """Refuse to work on a folder that is not that of the catalog."""
        found = find_mismatch(self.marker.read(), self.warehouse, newest, find)
        if found is not None:
            raise WarehouseMismatchError(self.marker.root, *found)

    @contextmanager
    def note_commit(self) -> Iterator[CommitNote]:
        """What is noted inside the block is shown when it ends, unless it fails."""
        note = CommitNote(self)
        try:
            yield note
        except BaseException:
            note.withdraw()
            raise
        note.show()


class CommitNote:
    """The newest snapshot of a folder, written before the commit and shown after it."""

    def __init__(self, folder: DataFolder) -> None:
        self._folder = folder
        self._prepared: tuple[Path, Snapshot] | None = None

    def prepare(self, newest: Snapshot) -> None:
        self._prepared = self._folder.marker.prepare(self._folder.warehouse, newest), newest

    def show(self) -> None:
        if self._prepared is not None:
            self._folder.marker.show(*self._prepared)

    def withdraw(self) -> None:
        if self._prepared is not None:
            with suppress(OSError):
                self._prepared[0].unlink(missing_ok=True)
