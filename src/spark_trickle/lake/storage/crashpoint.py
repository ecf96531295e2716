"""Places where a test may kill the process, to prove that a crash there loses nothing."""

from __future__ import annotations

import os
import signal

CRASH_POINTS = (
    "before_data",
    "half_data",
    "after_data",
    "begin",
    "after_snapshot_row",
    "after_definitions",
    "after_files",
    "before_commit",
    "after_commit",
    "after_landing",
    "before_target_commit",
    "after_target_commit",
    "vacuum_after_forget",
    "vacuum_half_deleted",
    "backup_catalog",
    "backup_files",
)


def crash_point(name: str) -> None:
    """Kill this process here if the environment asks for it; otherwise nothing."""
    if os.environ.get("SPARK_TRICKLE_CRASH_POINT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
