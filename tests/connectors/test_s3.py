"""Tables and files in a bucket of S3, on a Spark that reads it by the official client of Hadoop.

The server is moto. Spark needs jars that only a new Java process takes, so these tests run in a process of
their own: `make test-connectors` does that.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyspark.sql import SparkSession

import spark_trickle
from spark_trickle.errors import (
    Kind,
    OutsideFileError,
    SourceAddressError,
    SourceUnavailableError,
    TrickleError,
)
from spark_trickle.session import Trickle
from tests.connectors.buckets import BUCKET, Bucket, BucketLake, start_bucket
from tests.connectors.conftest import PYTHON
from tests.sources.iceberg_tables import IcebergLake
from tests.sources.inbox import to_csv, to_json, to_parquet
from tests.sources.lakes import FIRST, check_change, check_exact, count_rows, orders, shops
from tests.sources.test_delta import Walk

PACKAGE = "org.apache.hadoop:hadoop-aws:3.5.0"  # the version of Hadoop in PySpark's wheel
# After so many requests it stops; each stop costs the patience of the clients.
STOPS = (0, 5, 11, 18, 40, 80, 160, 1000)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    if not PYTHON.exists():
        pytest.skip("the server is not installed: run make test-connectors")
    if SparkSession.getActiveSession() is not None:
        pytest.skip("Spark is running already, without its client of S3: run make test-connectors")
    with start_bucket(tmp_path_factory.mktemp("bucket")) as started, pytest.MonkeyPatch.context() as patch:
        for name, value in started.environment.items():
            patch.setenv(name, value)
        yield started


@pytest.fixture(scope="module", autouse=True)
def spark(bucket: Bucket) -> SparkSession:
    """The session of a user: keys come from the environment, the server from the configuration."""
    settings = {
        "spark.jars.packages": PACKAGE,
        "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{bucket.port}",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.attempts.maximum": "1",
        "spark.hadoop.fs.s3a.retry.limit": "1",
        "spark.hadoop.fs.s3a.retry.interval": "10ms",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@pytest.fixture
def tr(tmp_path: Path, spark: SparkSession) -> Iterator[Trickle]:
    with spark_trickle.connect(tmp_path / "warehouse", spark=spark) as connection:
        yield connection


@pytest.fixture(params=["s3", "s3a"])
def lake(bucket: Bucket, request: pytest.FixtureRequest) -> BucketLake:
    """Our user spells its address in both ways."""
    return make_lake(bucket, request.param)


@pytest.mark.shows("delta", "in an object store")
def test_operations(lake: BucketLake, tr: Trickle) -> None:
    lake.follow(tr)
    check_exact(tr, lake)
    lake.append((4, "b", 1), (4, "b", 1))
    check_change(tr, lake, "lake", (2, 0))
    lake.merge((2, "a", 7), (9, "c", 1))
    check_change(tr, lake, "lake", (2, 1))
    lake.table().optimize.compact()
    check_change(tr, lake, "lake", (0, 0))


ODD = ["a b", "ä%20c", "x+y=z", "q?*[1]", None, "plain"]


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_partitions_with_odd_names(bucket: Bucket, scheme: str, tr: Trickle) -> None:
    lake = BucketLake(Path(f"odd names {next(_numbers)}"), bucket, scheme)
    lake.write(orders([(n, region, n) for n, region in enumerate(ODD)]), partition_by=["region"])
    lake.write(shops(("a b", "Ann")), "shops")
    lake.follow(tr)
    check_exact(tr, lake)
    lake.append(*((n + 10, region, n) for n, region in enumerate(ODD)))
    check_change(tr, lake, "lake", (len(ODD), 0))
    lake.table().update(updates={"amount": "amount + 1"}, predicate="id >= 10")
    check_change(tr, lake, "lake", (len(ODD), len(ODD)))


@pytest.mark.parametrize("room", [100_000, 1])
def test_files_that_are_gone(bucket: Bucket, room: int, tmp_path: Path, spark: SparkSession) -> None:
    """VACUUM there took the files that a sync needs to compare: the stream tables are made anew."""
    lake = make_lake(bucket)
    with spark_trickle.connect(tmp_path / "w", spark=spark, settings={"max_driver_rows": room}) as tr:
        lake.follow(tr)
        lake.table().update(updates={"amount": "amount + 1"}, predicate="id = 1")
        lake.table().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
        with pytest.raises(OutsideFileError, match="gone"):  # the version that we pinned
            tr.table("orders").collect()
        tr.sync("lake")
        assert "REINITIALIZE" in {r.action for r in tr.refresh_all()}
        check_exact(tr, lake)


def make_lake(bucket: Bucket, scheme: str = "s3") -> BucketLake:
    made = BucketLake(Path(f"lake{next(_numbers)}"), bucket, scheme)
    made.write(orders(FIRST))
    made.write(shops(("a", "Ann"), ("b", "Ben"), ("b", "Bo")), "shops")
    return made


@pytest.mark.parametrize("seed", range(2))
def test_walk(bucket: Bucket, tmp_path: Path, seed: int) -> None:
    BucketWalk(make_lake(bucket, ("s3", "s3a")[seed % 2]), tmp_path / "warehouse", seed).run(25)


class BucketWalk(Walk):
    def make_again(self) -> None:
        self.lake.remove("orders")
        self.lake.append(*(self.row() for _ in range(4)))

    steps = (*(s for s in Walk.steps if s is not Walk.make_again), make_again)


# --- publishing -------------------------------------------------------------------------------------

QUERIES = {
    "totals": "SELECT region, count(*) AS n, sum(amount) AS total FROM orders GROUP BY region",
    "bag": "SELECT region, amount FROM orders",
}


@dataclass
class Shop:
    """A warehouse that publishes into a bucket."""

    lake: BucketLake
    tr: Trickle

    def publish(self, **options: str) -> None:
        self.tr.sql("CREATE TABLE orders (id INT, region STRING, amount BIGINT)")
        self.tr.sql(f"INSERT INTO orders VALUES {', '.join(map(str, PUBLISHED))}")
        self.tr.attach_source("lake", "delta", path=self.lake.address)
        for name, query in QUERIES.items():
            self.tr.sql(f"CREATE STREAM TABLE {name} AS {query}")
            self.tr.publish(name, "lake", **(options if name == "totals" else {}))

    def check(self) -> None:
        for name in QUERIES:
            there = count_rows(self.lake.read(name))
            assert there == Counter(map(tuple, self.tr.table(name).collect())), name
            state = next(r for r in self.tr.answer("published_status").dicts() if r["published_as"] == name)
            assert (state["problem"], state["rows"]) == ("", sum(there.values()))


PUBLISHED = [(1, "a", 10), (2, "b", 20), (3, "b", 20), (5, "a", 1)]
CHANGES = (
    "INSERT INTO orders VALUES (6, 'c', 1), (7, 'c', 1)",
    "UPDATE orders SET amount = amount + 1 WHERE id = 1",
    "DELETE FROM orders WHERE id = 2",
    "INSERT INTO orders SELECT id, concat('r', id % 7), id FROM range(3000)",
    "DELETE FROM orders WHERE id % 3 = 0",
)


@pytest.fixture(params=[100_000, 5], ids=["by the driver", "by the executors"])
def shop(
    bucket: Bucket, tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest
) -> Iterator[Shop]:
    lake, settings = (
        make_lake(bucket, "s3" if request.param == 5 else "s3a"),
        {"max_driver_rows": request.param},
    )
    with spark_trickle.connect(tmp_path / "warehouse", spark=spark, settings=settings) as tr:
        yield Shop(lake, tr)


@pytest.mark.parametrize("feed", ["false", "true"])
@pytest.mark.shows("delta", "published to an object store")
def test_publish(shop: Shop, feed: str) -> None:
    shop.publish(change_data_feed=feed)
    shop.check()
    for statement in CHANGES:
        shop.tr.sql(statement)
        before = {name: shop.lake.table(name).version() for name in QUERIES}
        shop.tr.refresh_all()
        shop.check()
        assert all(shop.lake.table(name).version() == v + 1 for name, v in before.items())


def test_two_processes_publish_at_once(shop: Shop, tmp_path: Path, spark: SparkSession) -> None:
    shop.publish()
    with (
        spark_trickle.connect(tmp_path / "warehouse", spark=spark) as other,
        ThreadPoolExecutor(2) as pool,
    ):
        for statement in CHANGES:
            shop.tr.sql(statement)
            versions = {name: shop.lake.table(name).version() for name in QUERIES}
            for failed in pool.map(_push, (shop.tr, other)):
                assert failed is None or failed.kind is Kind.TRANSIENT, repr(failed)
            shop.tr.refresh_all()
            shop.check()
            assert all(shop.lake.table(name).version() == v + 1 for name, v in versions.items())


def _push(tr: Trickle) -> TrickleError | None:
    try:
        tr.refresh_all()
    except TrickleError as error:
        return error
    return None


@pytest.mark.parametrize("feed", ["false", "true"])
def test_the_answer_to_a_commit_gets_lost(shop: Shop, bucket: Bucket, feed: str) -> None:
    """The library tries again, is told that this version is there, and calls it a conflict with somebody."""
    shop.publish(change_data_feed=feed)
    for statement in CHANGES:
        shop.tr.sql(statement)
        bucket.order("lose", "totals/_delta_log")
        versions = {name: shop.lake.table(name).version() for name in QUERIES}
        shop.tr.refresh_all()
        shop.check()
        assert all(shop.lake.table(name).version() == v + 1 for name, v in versions.items())


def test_server_stops_while_it_is_published(shop: Shop, bucket: Bucket) -> None:
    shop.publish()
    for after in STOPS:
        for name in QUERIES:
            shop.lake.table(name).create_checkpoint()
        shop.tr.sql(f"INSERT INTO orders VALUES ({1000 + after}, 'a', {after})")
        shop.tr.sql("DELETE FROM orders WHERE id = 1000")
        bucket.order("stop after", str(after))
        try:
            failed = _push(shop.tr)
        finally:
            bucket.order("restart")
        if failed is None:
            break
        assert "the source cannot be reached" in str(failed), (after, failed)
        shop.tr.push("lake")
        shop.check()
    else:
        pytest.fail("it never went through")
    assert after > 0


# --- Iceberg ------------------------------------------------------------------------------------------


@dataclass
class IcebergBucket(IcebergLake):
    """A catalog in SQLite, and its tables in a bucket."""

    environment: Mapping[str, str] = field(default_factory=dict)
    scheme: str = "s3"

    @property
    def catalog(self) -> Catalog:
        return load_catalog(
            "writer",
            type="sql",
            uri=self.uri,
            warehouse=f"{self.scheme}://{BUCKET}/{self.path.name}{self.scheme}",
            **{"s3.endpoint": self.environment["AWS_ENDPOINT_URL"]},
        )


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
@pytest.mark.parametrize("room", [100_000, 1])
@pytest.mark.shows("iceberg", "in an object store")
def test_iceberg(bucket: Bucket, scheme: str, room: int, tmp_path: Path, spark: SparkSession) -> None:
    ice = IcebergBucket(tmp_path / f"ice{next(_numbers)}", environment=bucket.environment, scheme=scheme)
    ice.create(orders(FIRST))
    ice.create(shops(("a", "Ann"), ("b", "Ben"), ("b", "Bo")), "shops")
    with spark_trickle.connect(tmp_path / "w", spark=spark, settings={"max_driver_rows": room}) as tr:
        ice.follow(tr)
        check_exact(tr, ice)
        ice.append((4, "b", 1), (4, "b", 1))
        check_change(tr, ice, "ice", (2, 0))
        ice.table().delete("id = 1")
        check_change(tr, ice, "ice", (0, 1))
        ice.append((5, "x", 1))
        bucket.order("stop")
        try:
            with pytest.raises(TrickleError) as caught:
                tr.sync("ice")
        finally:
            bucket.order("start")
        assert "Connection" in caught.value.message or "connect" in caught.value.message
        check_change(tr, ice, "ice", (1, 0))


# --- trouble ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [100_000, 1])
@pytest.mark.shows("delta", "an outage in the middle")
def test_server_stops_in_the_middle(bucket: Bucket, room: int, tmp_path: Path, spark: SparkSession) -> None:
    """Wherever it stops, the error says that it will pass, nothing is consumed, and the next sync goes on."""
    lake = make_lake(bucket)
    with spark_trickle.connect(tmp_path / "w", spark=spark, settings={"max_driver_rows": room}) as tr:
        lake.follow(tr)
        for after in STOPS:
            lake.table().create_checkpoint()
            lake.merge((2, "a", after), (100 + after, "c", 1))
            lake.append((200 + after, "b", 1))
            snapshot = tr.snapshot
            bucket.order("stop after", str(after))
            failed = None
            try:
                assert not tr.sync("lake").problems
                tr.refresh_all()
            except TrickleError as error:
                failed = error
            finally:
                bucket.order("restart")
            if failed is None:
                break
            assert "the source cannot be reached" in str(failed), (after, failed)
            assert not tr.sync("lake").resynced
            assert "REINITIALIZE" not in {r.action for r in tr.refresh_all()}
            check_exact(tr, lake)
            types = Counter(r._change_type for r in tr.changes("orders", snapshot).collect())
            assert types["insert"] + types["update_postimage"] == 3
            assert types["delete"] + types["update_preimage"] == 1
        else:
            pytest.fail("it never went through")
        assert after > 0


def test_wrong_bucket(bucket: Bucket, tr: Trickle) -> None:
    for path in ("s3://nobody/tables", "s3a://nobody/tables", f"s3://{BUCKET}/nothing"):
        with pytest.raises(SourceAddressError, match=f"the folder {path} cannot be read"):
            tr.attach_source("lake", "delta", path=path)


SECRET = "geheim/1"


@pytest.mark.parametrize("kind", ["delta", "files"])
@pytest.mark.parametrize("start", [f"s3://KEY:{SECRET}@{BUCKET}", f"s3a://KEY:geheim@{BUCKET}"])
def test_secrets_are_refused(tr: Trickle, kind: str, start: str) -> None:
    with pytest.raises(SourceAddressError, match='the option "path" contains a secret') as caught:
        tr.attach_source("lake", kind, path=f"{start}/tables")
    assert "geheim" not in str(caught.value)


def test_wrong_key(bucket: Bucket, tr: Trickle, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = make_lake(bucket)
    lake.follow(tr)
    lake.append((4, "b", 1))
    bucket.order("check rights", "0")
    try:
        with monkeypatch.context() as patch:
            patch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
            with pytest.raises(SourceUnavailableError, match=r"SIGNATURE|ACCESS|Access|denied"):
                tr.sync("lake")
            with pytest.raises(SourceUnavailableError, match=r"SIGNATURE|ACCESS|Access|denied"):
                tr.attach_source("other", "files", path=lake.address)
        check_change(tr, lake, "lake", (1, 0))
    finally:
        bucket.order("check rights", "inf")


# --- requests --------------------------------------------------------------------------------------


def test_requests_of_a_quiet_sync(bucket: Bucket, tr: Trickle) -> None:
    """Where nothing happened, a sync lists the log of each table, and looks at its newest commit."""
    lake = make_lake(bucket)
    for n in range(5):
        lake.write(shops(("x", "y")), f"others{n}")  # nobody follows them
    lake.follow(tr)
    bucket.requests()
    tr.sync("lake")
    quiet = bucket.requests()
    assert len(quiet) <= 2 * 3
    for _ in range(3):
        lake.append((4, "b", 1))
    bucket.requests()
    tr.sync("lake")
    busy = bucket.requests()
    listed = Counter(r for r in busy if "list-type=2" in r)
    assert max(listed.values()) == 1
    read = Counter(r for r in busy if r.startswith("GET") and r.endswith(".json?"))
    assert max(read.values()) == 1


# --- files that arrive -------------------------------------------------------------------------------

WRITERS = {"json": to_json, "parquet": to_parquet, "csv": to_csv}
NAMES = ("plain", "with space", "50%25 off", "a+b", "ünï", "x=1/y", "[1]{2}")


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("room", [100_000, 1])
@pytest.mark.shows("files", "in an object store")
def test_files(
    bucket: Bucket, scheme: str, kind: str, room: int, tmp_path: Path, spark: SparkSession
) -> None:
    folder = f"in box {next(_numbers)}"
    address = f"{scheme}://{BUCKET}/{folder}"
    written: dict[str, list[tuple[Any, ...]]] = {}

    def write(name: str, *records: tuple[Any, ...]) -> None:
        written[f"{address}/{name}.{kind}"] = list(records)
        bucket.put(f"{folder}/{name}.{kind}", WRITERS[kind](records))

    def check() -> None:
        held = Counter(tuple(r) for r in tr.sql("SELECT _file, id, name FROM clicks").collect())
        assert held == Counter((f, *r) for f, records in written.items() for r in records)

    more = {"header": "true"} if kind == "csv" else {}
    write("first", (0, "a"))
    with spark_trickle.connect(tmp_path / "w", spark=spark, settings={"max_driver_rows": room}) as tr:
        tr.attach_source(
            "inbox",
            "files",
            path=f"{address}/**/*.{kind}",
            format=kind,
            schema="id BIGINT, name STRING",
            **more,
        )
        tr.sql("CREATE TABLE clicks FROM SOURCE inbox.files")
        tr.sql("CREATE STREAM TABLE views AS SELECT name, count(*) AS n FROM clicks GROUP BY name")
        check()
        for n, name in enumerate(NAMES):
            write(name, (n, "a"), (n, "b"))
        assert not tr.sync("inbox").rejected
        check()
        write("with space", (7, "b"))
        write("50%25 off", (8, "a"), (9, "c"), (9, "c"))
        tr.sync("inbox")
        tr.refresh_all()
        check()
        names = Counter(r[1] for records in written.values() for r in records)
        assert {tuple(r) for r in tr.table("views").collect()} == set(names.items())
        assert tr.sync("inbox").tables == {}
