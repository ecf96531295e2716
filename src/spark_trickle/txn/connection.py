"""One connection to a warehouse: where its statements run, and the transaction that is open."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.errors import TransactionStateError, UnsupportedError
from spark_trickle.txn.work import Place, Work, begin_work, now


@dataclass
class WarehouseConnection:
    """What all parts of a connection share; whoever changes it changes it for all of them."""

    place: Place
    transaction: Work | None = None
    closed: bool = False

    def read(self) -> Work:
        """The open transaction, or a work on the newest snapshot."""
        self.require_open()
        return self.transaction or begin_work(self.place)

    def begin_work(self) -> Work:
        """A work of its own on the newest snapshot, whatever transaction is open."""
        self.require_open()
        return begin_work(self.place)

    def move_to(self, place: Place) -> None:
        """From now on statements run there, also those of the open transaction."""
        self.place = place
        if self.transaction is not None:
            self.transaction.place = place

    def require_open(self) -> None:
        if self.closed:
            raise TransactionStateError(
                "the connection is closed", "Open a new one with spark_trickle.connect()."
            )

    def require_no_transaction(self, statement: str, hint: str = "COMMIT or ROLLBACK first.") -> None:
        self.require_open()
        if self.transaction is not None:
            raise UnsupportedError(f"{statement} in a transaction", hint)

    def close(self) -> None:
        """Give back what it holds in this process and in the catalog."""
        place = self.place
        place.warehouse.read_counter.write(place.warehouse.engine, now())
        place.views.clear()
        while place.kept:
            place.storage.discard(*place.kept.pop())
        place.lease.end()
        place.warehouse.engine.dispose()
        self.closed = True
