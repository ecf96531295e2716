"""A warehouse of an older release is brought up to date when it is opened, and keeps what it holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import inspect

from spark_trickle.lake.catalog import migrations, read
from spark_trickle.lake.catalog.engine import open_engine, reading
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
    with reading(warehouse.engine) as connection:
        assert migrations.is_current(connection)
        assert read.newest(connection).id == 0
    assert inspect(warehouse.engine).has_table("trickle_stream")
    assert inspect(warehouse.engine).has_table("trickle_refresh")
    warehouse.engine.dispose()
