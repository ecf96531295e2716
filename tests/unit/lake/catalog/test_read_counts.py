"""How often stream tables are read: counted in memory, and written without holding up a query."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import create_engine

from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.lake.catalog.read_counts import ReadCount, ReadCounter, all_reads
from tests.unit.lake.lakes import NOW, Lake


def test_reads_are_counted_in_memory_and_written_now_and_then(lake: Lake) -> None:
    engine, counter, table = lake.warehouse.engine, ReadCounter(), lake.create("reads").id

    def written() -> ReadCount | None:
        with open_reader(engine) as connection:
            return all_reads(connection).get(table)

    counter.note(engine, table, NOW)
    counter.note(engine, table, NOW + timedelta(seconds=59))
    assert written() is None
    counter.note(engine, table, NOW + timedelta(seconds=60))
    assert written() == ReadCount(3, NOW + timedelta(seconds=60), NOW + timedelta(seconds=60))
    counter.note(engine, table, NOW + timedelta(seconds=61))
    counter.write(engine, NOW + timedelta(seconds=90))
    assert written() == ReadCount(4, NOW + timedelta(seconds=60), NOW + timedelta(seconds=90))


def test_what_cannot_be_written_is_kept(lake: Lake) -> None:
    engine, counter, table = lake.warehouse.engine, ReadCounter(), lake.create("kept").id
    read_only = create_engine(f"sqlite:///file:{engine.url.database}?mode=ro&uri=true")
    counter.note(read_only, table, NOW)
    counter.write(read_only, NOW)
    read_only.dispose()
    counter.write(engine, NOW)
    with open_reader(engine) as connection:
        assert all_reads(connection)[table] == ReadCount(1, NOW, NOW)
