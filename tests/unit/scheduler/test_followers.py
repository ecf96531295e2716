"""Threads that follow sources: whatever fails, they go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from spark_trickle.errors import SourceUnavailableError, TrickleError, WarehouseError
from spark_trickle.scheduler.followers import Followers
from spark_trickle.scheduler.outage import compute_pause
from spark_trickle.sources.report import SyncReport
from tests.unit.scheduler.loops import until

DOWN = SourceUnavailableError("connection refused")
NO_CATALOG = WarehouseError("the catalog cannot be used", "Wait.")
DONE = SyncReport("erp", "TRIGGER", 0, 0)


class Script:
    """What happens at each call; after the last line all is well."""

    def __init__(self, *lines: BaseException | None) -> None:
        self._lines: Iterator[BaseException | None] = iter(lines)
        self.calls = 0
        self.finished = threading.Event()

    def step(self) -> None:
        self.calls += 1
        try:
            error = next(self._lines)
        except StopIteration:
            self.finished.set()
        else:
            if error is not None:
                raise error

    def sync(self, name: str) -> SyncReport:
        self.step()
        return DONE


def test_an_alert_that_cannot_be_raised_is_raised_later() -> None:
    sync, catalog = Script(DOWN, DOWN, DOWN), Script(NO_CATALOG, NO_CATALOG)
    told: list[tuple[str, str]] = []

    def tell(event: str, name: str, message: str) -> None:
        catalog.step()
        told.append((event, name))

    followers = Followers(sync.sync, tell, 0.001)
    followers.follow(["erp"])
    assert sync.finished.wait(60)
    followers.stop()
    assert told == [("source_unavailable", "erp")]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_ended_begins_again() -> None:
    sync = Script(ValueError("nobody thought of this"))
    followers = Followers(sync.sync, lambda *_: None, 0.001)
    followers.follow(["erp"])
    until(lambda: sync.calls == 1 and not _following())
    followers.follow(["erp"])
    assert sync.finished.wait(60)
    followers.follow(["erp"])
    assert len(_following()) == 1
    followers.stop()
    assert not _following()


def _following() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "trickle-source-erp"]


@pytest.mark.parametrize(
    ("seconds", "failures", "waits"),
    [(0.5, 0, 0.5), (0.5, 1, 1.0), (0.5, 3, 4.0), (0.5, 9, 60.0), (0.5, 5000, 60.0), (600.0, 3, 600.0)],
)
def test_pauses(seconds: float, failures: int, waits: float) -> None:
    assert compute_pause(seconds, failures) == waits


@pytest.mark.parametrize("error", [DOWN, NO_CATALOG])
def test_what_fails_is_told_once(error: TrickleError) -> None:
    sync = Script(error, error, None, error)
    told: list[str] = []
    followers = Followers(sync.sync, lambda event, *_: told.append(event), 0.001)
    for _ in range(4):
        followers.sync_once(["erp"])
    assert len(told) == 2
