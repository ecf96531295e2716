"""A claim that runs out by itself -> renewed by a thread of its own for as long as a block runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

from spark_trickle.errors import CatalogBusyError, WarehouseError


@contextmanager
def renew_every(seconds: float, renew: Callable[[], None]) -> Iterator[None]:
    """Call `renew` again and again until the block ends.

    A catalog that does not answer is no error here: the claim outlasts several renewals, and the next commit
    tells of it.
    """
    done = Event()

    def renew_in_time() -> None:
        while not done.wait(seconds):
            with suppress(CatalogBusyError, WarehouseError):
                renew()

    renewal = Thread(target=renew_in_time, daemon=True)
    renewal.start()
    try:
        yield
    finally:
        done.set()
        renewal.join()
