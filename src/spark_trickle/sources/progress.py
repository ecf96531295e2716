"""Whoever wants to know how far a long copy is."""

from __future__ import annotations

from collections.abc import Callable

from spark_trickle.sources.postgres.copy import Progress

Listen = Callable[[Progress], None]


def ignore_progress(_: Progress) -> None: ...
