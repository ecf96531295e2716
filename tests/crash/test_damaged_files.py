"""A data file that is missing, cut or overwritten stops what needs it, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_trickle import errors as e
from spark_trickle.cli.main import main
from spark_trickle.session import Trickle
from tests.conftest import Location, rows
from tests.crash.refusal import check_refused

SETUP = (
    "CREATE TABLE t (id BIGINT, name STRING, PRIMARY KEY (id))",
    "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
    "CREATE TABLE whole (id BIGINT, name STRING)",
    "INSERT INTO whole VALUES (1, 'w')",
    "INSERT INTO t VALUES (3, 'c')",
)


def footer_start(path: Path) -> int:
    return path.stat().st_size - 8 - int.from_bytes(path.read_bytes()[-8:-4], "little")


def footer(path: Path) -> bytes:
    return path.read_bytes()[footer_start(path) :]


def flip_bit_of_page(path: Path) -> None:
    """In the last byte of the first column: a value, not what Parquet says of it."""
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    content = bytearray(path.read_bytes())
    content[begin + chunk.total_compressed_size - 1] ^= 1
    path.write_bytes(content)


OLD, NOW = [(1, "a"), (2, "b")], [(1, "a"), (2, "b"), (3, "c")]
DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": lambda p: p.unlink(),
    "truncated": lambda p: p.write_bytes(p.read_bytes()[:-20]),
    "empty": lambda p: p.write_bytes(b""),
    "longer": lambda p: p.write_bytes(p.read_bytes() + b"x"),
    "garbage": lambda p: p.write_bytes(b"\xa5" * p.stat().st_size),
    "a flipped bit": flip_bit_of_page,
    "garbage before the footer": lambda p: p.write_bytes(b"\xff" * footer_start(p) + footer(p)),
}
SAME_SIZE = ("garbage", "garbage before the footer", "a flipped bit")  # seen only by who reads the file
NEED_THE_FILE = (
    "UPDATE t SET name = 'x'",
    "UPDATE t SET name = 'x' WHERE id = 1",
    "DELETE FROM t WHERE name = 'b'",
    "INSERT INTO t VALUES (2, 'x')",
    "INSERT INTO whole SELECT * FROM t",
    "MERGE INTO t USING whole ON t.id = whole.id WHEN MATCHED THEN UPDATE SET name = whole.name",
    "MERGE INTO whole USING t ON t.id = whole.id WHEN NOT MATCHED THEN INSERT *",
    "CREATE TABLE x AS SELECT * FROM t",
    "OPTIMIZE t",
)
NOTE_THE_FILE = ("TRUNCATE TABLE t", "INSERT OVERWRITE t VALUES (1, 'x')")  # as removed, without reading it


@pytest.fixture
def location(tmp_path: Path) -> Location:
    return Location(str(tmp_path / "warehouse"), None)


@pytest.fixture
def damaged(location: Location) -> Callable[[str], Path]:
    """Fills a warehouse and damages the first file of t; the content goes to a backup."""
    with location.connect() as tr:
        for statement in SETUP:
            tr.sql(statement)
        first = tr.sql("SELECT file FROM trickle.files('t') ORDER BY begin_snapshot").collect()[0][0]

    def damage(how: str) -> Path:
        path = Path(first)
        path.with_suffix(".backup").write_bytes(path.read_bytes())
        DAMAGES[how](path)
        return path

    return damage


@pytest.mark.one_in(3)
@pytest.mark.parametrize("how", DAMAGES)
def test_statements_that_need_a_damaged_file(
    how: str, location: Location, damaged: Callable[[str], Path]
) -> None:
    path = damaged(how)
    with location.connect() as tr:
        for statement in NEED_THE_FILE + (() if how in SAME_SIZE else NOTE_THE_FILE):
            check_refused(tr, location, lambda sql=statement: tr.sql(sql), e.DamagedFileError, path.name)
    with location.connect(settings={"max_driver_rows": 1, "local_tail_rows": 0}) as tr:
        check_refused(tr, location, lambda: tr.sql("UPDATE t SET name = 'x'"), e.DamagedFileError, path.name)
        assert rows(tr.table("whole")) == [(1, "w")]
        assert rows(tr.sql("SELECT * FROM t VERSION AS OF 1")) == []
        path.write_bytes(path.with_suffix(".backup").read_bytes())
        assert rows(tr.table("t", snapshot=2)) == OLD
        assert rows(tr.table("t")) == NOW


@pytest.mark.parametrize("how", SAME_SIZE)
def test_garbage_can_be_truncated_and_is_found_by_who_reads_what_went(
    how: str, location: Location, damaged: Callable[[str], Path]
) -> None:
    path = damaged(how)
    with location.connect() as tr:
        since = tr.snapshot
        tr.sql("TRUNCATE TABLE t")
        assert rows(tr.table("t")) == []
        went = f"SELECT id, name FROM trickle.changes('t', {since}, {tr.snapshot})"
        found = check_refused(
            tr, location, lambda: tr.sql(f"INSERT INTO whole {went}"), e.DamagedFileError, path.name
        )
        assert found.hint


@pytest.mark.parametrize("how", ["missing", "truncated"])
def test_queries_tell_of_a_damaged_file_at_once(
    how: str, location: Location, damaged: Callable[[str], Path]
) -> None:
    path = damaged(how)
    with location.connect() as tr:
        queries: list[Callable[[], object]] = [
            lambda: tr.sql("SELECT count(*) FROM t"),
            lambda: tr.sql("SELECT * FROM t VERSION AS OF 2"),
            lambda: tr.table("t"),
            lambda: tr.changes("t", after=0),
            lambda: tr.sql("SELECT * FROM trickle.changes('t', 1, 2)"),
        ]
        for query in queries:
            check_refused(tr, location, query, e.DamagedFileError, f"main.t {path.name}")


@pytest.mark.parametrize("by_executors", [False, True])
def test_a_flipped_bit_is_told_of_by_all_that_we_collect(
    by_executors: bool, location: Location, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"max_driver_rows": 1, "local_tail_rows": 0} if by_executors else {}
    with location.connect(settings=settings) as tr:
        tr.sql("CREATE TABLE t (id BIGINT, name STRING)")
        tr.sql("CREATE STREAM TABLE s REFRESH MODE FULL AS SELECT id, count(*) AS n FROM t GROUP BY id")
        tr.sql("INSERT INTO t SELECT id, 'a' FROM range(0, 100, 1, 1)")
        path = Path(tr.sql("SELECT file FROM trickle.files('t')").first()[0])
        assert ("/part-" in str(path)) is by_executors
    flip_bit_of_page(path)
    query = "SELECT sum(id) FROM t"
    with location.connect(settings=settings) as tr:
        collects: tuple[Callable[[], object], ...] = (
            lambda: tr.arrow(query),
            lambda: tr.pandas(query),
            lambda: tr.refresh("s"),
        )
        for action in collects:
            check_refused(tr, location, action, e.DamagedFileError, path.name)
    for command in (["sql", location.path, query], ["changes", location.path, "t", "--since", "0"]):
        assert main(command) == e.DamagedFileError.kind.value
        told = capsys.readouterr().err
        assert "DAMAGED_FILE" in told
        assert path.name in told


@pytest.mark.parametrize("how", DAMAGES)
def test_a_commit_is_never_reported_as_failed(
    how: str, location: Location, damaged: Callable[[str], Path]
) -> None:
    """The compaction after an INSERT needs the file, the INSERT does not: it is done, and says so."""
    damaged(how)
    with location.connect(settings={"compact_change_files": 2}) as tr:
        before = tr.snapshot
        assert inserted(tr, 7) == 1
        assert inserted(tr, 8) == 1
        assert tr.snapshot == before + 2


def inserted(tr: Trickle, id: int) -> int:
    return int(tr.sql(f"INSERT INTO t VALUES ({id}, 'new')").collect()[0].rows_inserted)
