"""A pause between two syncs -> one that ends as soon as triggers of the source tell of a change."""

from __future__ import annotations

import time
from threading import Event

from spark_trickle.errors import SourceUnavailableError
from spark_trickle.lake.catalog import sources
from spark_trickle.sources.link import Links
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.listen import await_notice, listen_to
from spark_trickle.sources.postgres.options import read_options
from spark_trickle.txn.work import Place

_SLICE = 0.2  # seconds after which who stops us is heard, and who detaches the source gets the connection


def await_change(place: Place, links: Links, name: str, seconds: float, stop: Event) -> None:
    """Wait for some seconds, or until the source has something new, if it was told to say so."""
    end = time.monotonic() + seconds
    source = sources.find_source(place.warehouse.engine, name)
    options = read_options(source.options)
    try:
        while options.notify and not stop.is_set() and (left := end - time.monotonic()) > 0:
            with links.use_connection(source.name, options, "listen", _say_nothing) as connection:
                new = listen_to(connection, options.schema)  # then nobody heard what came before
                if new or await_notice(connection, min(left, _SLICE)):
                    return
    except SourceUnavailableError:  # the next sync will tell
        pass
    stop.wait(max(0.0, end - time.monotonic()))


def _say_nothing(_: Connection) -> None:
    """A connection that broke is noticed by who listens."""
