"""A transaction at some point -> the same transaction later, as if nothing had happened since."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_trickle.txn.work import Work
from spark_trickle.txn.work_state import WorkState


@dataclass(frozen=True)
class Savepoint:
    """What a transaction had come to, and how many files and folders it had written.

    What it read is no part of it: that a statement failed may hang on any row that it looked at.
    """

    state: WorkState
    written: int


def take_savepoint(work: Work) -> Savepoint:
    return Savepoint(work.state, len(work.written))


def roll_back(work: Work, savepoint: Savepoint) -> None:
    """Forget all that came since, and delete the files that were written."""
    fresh = work.written[savepoint.written :]
    del work.written[savepoint.written :]  # a scratch shares the list with the work that it tries changes for
    work.state = savepoint.state
    replace(work, written=fresh).discard()
