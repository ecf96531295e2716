"""The migrations make exactly the tables that the code declares, step by step and only when needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from spark_trickle.lake import migrations
from spark_trickle.lake import schema as s
from spark_trickle.lake.engine import open_engine, writing


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path}/catalog.sqlite", 5.0)
    yield engine
    engine.dispose()


@pytest.fixture
def connection(engine: Engine) -> Iterator[Connection]:
    with writing(engine) as connection:
        yield connection


def test_migrated_tables_are_the_declared_ones(connection: Connection) -> None:
    migrations.upgrade(connection)
    context = MigrationContext.configure(
        connection,
        opts={
            "version_table": migrations.VERSION_TABLE,
            "compare_type": True,
            "compare_server_default": True,
        },
    )
    assert compare_metadata(context, s.metadata) == []


def test_types_keys_and_indexes_agree_to_the_letter(tmp_path: Path, connection: Connection) -> None:
    """Autogenerate forgives some differences; the statements that SQLite stored do not."""
    migrations.upgrade(connection)
    other = open_engine(f"sqlite:///{tmp_path}/declared.sqlite", 5.0)
    with writing(other) as declared:
        s.metadata.create_all(declared)
        assert _shape(connection) == _shape(declared)
    other.dispose()


def _shape(connection: Connection) -> dict[str, object]:
    found = inspect(connection)
    return {
        name: (
            [(c["name"], str(c["type"]), c["nullable"]) for c in found.get_columns(name)],
            found.get_pk_constraint(name)["constrained_columns"],
            sorted((i["name"] or "", tuple(i["column_names"])) for i in found.get_indexes(name)),
        )
        for name in sorted(found.get_table_names())
        if name != migrations.VERSION_TABLE
    }


def test_an_upgraded_catalog_is_current(connection: Connection) -> None:
    assert not migrations.is_current(connection)
    migrations.upgrade(connection)
    assert migrations.is_current(connection)
    migrations.upgrade(connection)
    assert migrations.is_current(connection)
    found = connection.execute(text(f"SELECT version_num FROM {migrations.VERSION_TABLE}")).scalars().all()
    assert found == [migrations.HEAD]


def test_a_migration_that_is_not_finished_never_happened(engine: Engine) -> None:
    def fail_half_way() -> None:
        with writing(engine) as connection:
            migrations.upgrade(connection)
            raise KeyError

    with pytest.raises(KeyError):
        fail_half_way()
    with writing(engine) as connection:
        assert inspect(connection).get_table_names() == []
        assert not migrations.is_current(connection)


def test_known_versions_are_those_of_the_scripts() -> None:
    scripts = ScriptDirectory(str(Path(migrations.__file__).parent))
    revisions = [script.revision for script in scripts.walk_revisions()]
    assert scripts.get_heads() == [migrations.HEAD]
    assert list(migrations.KNOWN) == revisions[::-1]
