"""A warehouse of an older release is brought up to date when it is opened, and keeps what it holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from spark_trickle.lake.catalog import migrations, read
from spark_trickle.lake.catalog.engine import open_engine, open_reader, open_writer
from spark_trickle.lake.catalog.new_catalog import prepare_catalog
from spark_trickle.lake.storage.data_folder import Request
from spark_trickle.lake.warehouse import open_warehouse


def test_from_the_first_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as old:
        old.setattr(migrations, "HEAD", "0001")
        (tmp_path / "w").mkdir()
        engine = open_engine(f"sqlite:///{tmp_path}/w/catalog.sqlite", 5)
        prepare_catalog(engine, Request("s", None, tmp_path / "w", adopt=False, read_only=False))
        assert not inspect(engine).has_table("trickle_stream")
        engine.dispose()
    warehouse = open_warehouse(tmp_path / "w", None, 5)
    with open_reader(warehouse.engine) as connection:
        assert migrations.is_current(connection)
        assert read.read_newest(connection).id == 0
    assert inspect(warehouse.engine).has_table("trickle_stream")
    assert inspect(warehouse.engine).has_table("trickle_refresh")
    warehouse.engine.dispose()


def test_files_of_before_are_taken_to_be_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody measured what their rows take; without a guess they would all seem to fit at the driver."""
    with monkeypatch.context() as old:
        old.setattr(migrations, "HEAD", "0007")
        (tmp_path / "w").mkdir()
        engine = open_engine(f"sqlite:///{tmp_path}/w/catalog.sqlite", 5)
        prepare_catalog(engine, Request("s", None, tmp_path / "w", adopt=False, read_only=False))
        data = "(data_file_id, table_id, begin_snapshot, path, record_count, file_size_bytes, footer_size)"
        with open_writer(engine) as connection:
            connection.execute(
                text(f"INSERT INTO ducklake_data_file {data} VALUES (1, 7, 0, 'f', 3, 1000, 10)")
            )
            connection.execute(
                text(
                    "INSERT INTO trickle_file (data_file_id, table_id, begin_snapshot, role, location, deletes, as_of) "
                    "VALUES (1, 7, 0, 'change', 't/f', 0, 0)"
                )
            )
        engine.dispose()
    stored = tmp_path / "w" / "data" / "tables" / "t" / "f"
    stored.parent.mkdir(parents=True)
    stored.touch()
    warehouse = open_warehouse(tmp_path / "w", None, 5)
    with open_reader(warehouse.engine) as connection:
        (file,) = read.read_files(connection, 7, 0)
    assert (file.bytes, file.memory) == (1000, 4000)
    warehouse.engine.dispose()
