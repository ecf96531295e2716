"""A place -> the components that a connection consists of, each made from those it uses."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.refresh.refresher import Refresher
from spark_trickle.scheduler.control import Control
from spark_trickle.session.maintenance import Maintenance
from spark_trickle.session.stream_tables import StreamTables
from spark_trickle.session.tables import Tables
from spark_trickle.session.transactions import Transactions
from spark_trickle.sources.calls import Sources
from spark_trickle.sources.link import Links
from spark_trickle.targets.calls import Publisher
from spark_trickle.txn.connection import WarehouseConnection
from spark_trickle.txn.work import Place


@dataclass(frozen=True)
class Components:
    """They share one connection to the warehouse, and the links to its sources."""

    connection: WarehouseConnection
    links: Links
    transactions: Transactions
    tables: Tables
    stream_tables: StreamTables
    refresher: Refresher
    sources: Sources
    publisher: Publisher
    control: Control
    maintenance: Maintenance

    def close(self) -> None:
        """Undo what is open, and give back what is held; the Spark session stays."""
        if self.connection.closed:
            return
        if self.connection.transaction is not None:
            self.transactions.roll_back()
        self.links.close()
        self.connection.close()


def build_components(place: Place) -> Components:
    connection, links = WarehouseConnection(place), Links()
    transactions, sources = Transactions(connection), Sources(connection, links)
    publisher = Publisher(connection, links, sources)
    refresher = Refresher(connection, follow=publisher.push_refreshed)
    return Components(
        connection,
        links,
        transactions,
        Tables(connection, transactions, sources),
        StreamTables(connection, transactions, refresher, sources),
        refresher,
        sources,
        publisher,
        Control(connection, sources, refresher, publisher),
        Maintenance(connection, transactions),
    )
