"""A PostgreSQL server, a database that is clean for each test, and a warehouse that it is attached to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import spark_trickle
from spark_trickle.session import Trickle
from tests.postgres.conftest import server, world
from tests.postgres.world import World

__all__ = ["server", "world"]

DSN = "SHOP_DSN"


def shown(value: Any) -> str:
    """Zeros after the point are not kept by a mirror of a numeric without a scale."""
    return f"{value.normalize():f}" if isinstance(value, Decimal) else repr(value)


@dataclass
class Shop:
    """An application with a database, and a warehouse beside it."""

    world: World
    tr: Trickle
    place: Path

    def attach(self, mode: str = "trigger", **options: str) -> None:
        given = {"dsn": f"env:{DSN}", "cdc_mode": mode, **options}
        self.tr.attach_source("shop", **given)

    def run(self, *statements: str) -> None:
        self.world.run(*statements)

    def there(self, query: str) -> Counter[tuple[Any, ...]]:
        """The rows of a query in PostgreSQL."""
        return Counter(tuple(map(shown, row)) for row in self.world.rows(query))

    def here(self, query: str) -> Counter[tuple[Any, ...]]:
        return Counter(tuple(map(shown, row)) for row in self.tr.sql(query).collect())

    def check(self, query: str, name: str | None = None) -> None:
        """A table here holds what a query finds there."""
        assert self.here(f"SELECT * FROM {name}" if name else query) == self.there(query)

    def status(self, table: str) -> tuple[str, str]:
        found = self.tr.answer("source_status").dicts()
        row = next(r for r in found if r["mirror"] == table)
        return row["status"], row["reason"]


@pytest.fixture
def shop(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setenv(DSN, world.server.conninfo(world.database))
    with spark_trickle.connect(tmp_path / "warehouse") as tr:
        yield Shop(world, tr, tmp_path / "warehouse")
