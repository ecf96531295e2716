"""TPC-H: its tables at a small scale, and batches that change all eight of them where the queries look."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from spark_trickle.session import Trickle

FOLDER = Path(__file__).parents[2] / "benchmarks" / "tpch"
QUERIES = {path.stem: path.read_text() for path in sorted(FOLDER.glob("q*.sql"))}
KEYS = {
    "region": "r_regionkey",
    "nation": "n_nationkey",
    "supplier": "s_suppkey",
    "customer": "c_custkey",
    "part": "p_partkey",
    "partsupp": "ps_partkey, ps_suppkey",
    "orders": "o_orderkey",
    "lineitem": "l_orderkey, l_linenumber",
}


def generate(folder: Path, scale: float) -> None:
    command = [str(Path(sys.executable).parent / "tpchgen-cli"), "parquet", "-s", str(scale)]
    subprocess.run([*command, f"--output-dir={folder}"], check=True, capture_output=True)


def load(tr: Trickle, folder: Path) -> None:
    for name, key in KEYS.items():
        frame = tr.spark.read.parquet(f"{folder}/{name}.parquet")
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in frame.schema.fields)
        tr.sql(f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({key}))")
        tr.append(name, frame)


def batch(number: int) -> list[str]:
    """Rows come, change and go on both sides of every join, several of them in one batch."""
    n = number
    new = 10_000_000 + 1_000 * n
    return [
        # orders with their lines, both gone in one batch; and lines alone
        f"DELETE FROM lineitem WHERE l_orderkey % 97 = {n}",
        f"DELETE FROM orders WHERE o_orderkey % 97 = {n}",
        f"DELETE FROM lineitem WHERE l_orderkey % 89 = {n} AND l_linenumber = 1",
        # new orders of old and recent days, with lines that are late
        "INSERT INTO orders SELECT CAST(o_orderkey + "
        f"{new} AS BIGINT), o_custkey, o_orderstatus, o_totalprice * 2, o_orderdate, '1-URGENT', o_clerk, "
        f"o_shippriority, 'new' FROM orders WHERE o_orderkey % 211 = {n}",
        f"INSERT INTO lineitem SELECT CAST(l_orderkey + {new} AS BIGINT), l_partkey, l_suppkey, l_linenumber, "
        "l_quantity + 20, l_extendedprice * 3, 0.06, l_tax, 'R', l_linestatus, l_shipdate, "
        "date_add(l_shipdate, 1), date_add(l_shipdate, 9), l_shipinstruct, 'MAIL', 'new' "
        f"FROM lineitem WHERE l_orderkey % 211 = {n}",
        f"UPDATE lineitem SET l_quantity = 3, l_discount = 0.06 WHERE l_orderkey % 83 = {n}",
        f"UPDATE lineitem SET l_suppkey = 1 + (l_suppkey + {n}) % 100 WHERE l_orderkey % 149 = {n}",
        f"UPDATE orders SET o_custkey = 1 + (o_custkey + 7) % 1500, o_comment = 'x' WHERE o_orderkey % 79 = {n}",
        f"UPDATE orders SET o_orderdate = DATE '1994-03-01' WHERE o_orderkey % 139 = {n}",
        f"DELETE FROM customer WHERE c_custkey % 101 = {n}",
        f"UPDATE customer SET c_mktsegment = 'BUILDING', c_acctbal = c_acctbal + 5000 WHERE c_custkey % 53 = {n}",
        f"INSERT INTO customer SELECT c_custkey + {new}, c_name, c_address, c_nationkey, "
        f"concat('13', substring(c_phone, 3)), c_acctbal + 900, 'BUILDING', 'new' FROM customer WHERE c_custkey % 211 = {n}",
        f"DELETE FROM partsupp WHERE ps_partkey % 97 = {n} AND ps_suppkey % 2 = 0",
        f"UPDATE partsupp SET ps_supplycost = ps_supplycost / 2, ps_availqty = 1 WHERE ps_partkey % 61 = {n}",
        f"DELETE FROM part WHERE p_partkey % 499 = {n}",
        f"UPDATE part SET p_type = 'PROMO BURNISHED BRASS', p_size = 15, p_name = 'forest green' WHERE p_partkey % 103 = {n}",
        f"UPDATE part SET p_brand = 'Brand#23', p_container = 'MED BOX' WHERE p_partkey % 41 = {n}",
        f"DELETE FROM supplier WHERE s_suppkey = {50 + n}",
        f"UPDATE supplier SET s_nationkey = {n % 25}, s_comment = 'Customer Complaints' WHERE s_suppkey % 33 = {n}",
        f"UPDATE nation SET n_name = '{('GERMANY', 'CANADA', 'FRANCE')[n % 3]}' WHERE n_nationkey = {n + 11}",
        f"UPDATE region SET r_name = '{('ASIA', 'EUROPE', 'AMERICA')[n % 3]}' WHERE r_regionkey = {n % 5}",
    ]
