"""One server for all tests of this folder, with a database that is clean for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres.server import Server, new_server
from tests.postgres.world import World


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = new_server()
    yield server
    server.remove()


@pytest.fixture
def world(server: Server) -> Iterator[World]:
    """A clean database; every connection that a test opens through it is closed at the end."""
    world = World(server, "postgres")
    yield world
    world.clean()
