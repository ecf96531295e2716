"""A share of the rows of TPC-H -> statements that change so many: all over the tables, or the newest.

Which rows are hit is left to a hash of their keys and a salt, so batches differ and a run can be repeated.
New rows are copies of the first ones under keys of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from spark_trickle.session import Trickle
from tests.spark.tpch import KEYS

_WHOLE = 10**8  # a hash modulo this is compared with a share of it
_FAR = 10**9  # keys of copies are this far from those of the rows that they copy, times the batch
_RECENT = "DATE '1998-05-01'"  # the last of seven years' orders
_UPDATES = {
    "region": "r_comment = 'changed'",
    "nation": "n_comment = 'changed'",
    "supplier": "s_acctbal = s_acctbal + 10",
    "customer": "c_acctbal = c_acctbal + 10, c_mktsegment = 'BUILDING'",
    "part": "p_size = 1 + p_size % 50, p_retailprice = p_retailprice + 1",
    "partsupp": "ps_supplycost = ps_supplycost + 1, ps_availqty = ps_availqty + 1",
    "orders": "o_totalprice = o_totalprice + 1, o_orderpriority = '1-URGENT'",
    "lineitem": "l_quantity = 1 + l_quantity % 50, l_extendedprice = l_extendedprice + 100",
}
# The column that a copy gets another value of, and what is true only of rows that are no copies.
_COPIED = {
    "region": ("r_regionkey", "r_regionkey < 5"),
    "nation": ("n_nationkey", "n_nationkey < 25"),
    "supplier": ("s_suppkey", f"s_suppkey < {_FAR}"),
    "customer": ("c_custkey", f"c_custkey < {_FAR}"),
    "part": ("p_partkey", f"p_partkey < {_FAR}"),
    "partsupp": ("ps_partkey", f"ps_partkey < {_FAR}"),
    "orders": ("o_orderkey", f"o_orderkey < {_FAR}"),
    "lineitem": ("l_orderkey", f"l_orderkey < {_FAR}"),
}


@dataclass
class Batches:
    """Writes batch after batch to the tables of one warehouse."""

    tr: Trickle
    chance: Random = field(default_factory=lambda: Random(3))
    number: int = 0
    sizes: dict[str, int] = field(default_factory=dict)
    columns: dict[str, list[str]] = field(default_factory=dict)
    recent: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in KEYS:
            self.sizes[name] = self.tr.table(name).count()
            self.columns[name] = self.tr.table(name).columns
        for name, day in (("orders", "o_orderdate"), ("lineitem", "l_shipdate")):
            self.recent[name] = max(1, self.tr.table(name).where(f"{day} >= {_RECENT}").count())

    @property
    def rows(self) -> int:
        return sum(self.sizes.values())

    def apply(self, mix: str, percent: float) -> None:
        self.number += 1
        for statement in {"uniform": self._uniform, "recent": self._recent}[mix](percent / 100):
            self.tr.sql(statement)

    def _uniform(self, share: float) -> list[str]:
        """Each table alike: 70% updates, 15% deletes, 15% inserts."""
        found = []
        for name in KEYS:
            if self.sizes[name] * share < self.chance.random():
                continue  # a table of few rows is changed in few of the batches
            found += [
                f"UPDATE {name} SET {_UPDATES[name]} WHERE {self._some(KEYS[name], 0.70 * share)}",
                f"DELETE FROM {name} WHERE {self._some(KEYS[name], 0.15 * share)}",
                self._copy(name, self._some(KEYS[name], 0.15 * share)),
            ]
        return found

    def _recent(self, share: float) -> list[str]:
        """Half are new orders with their lines, the others change or go; customers and stock hardly move."""
        new = self.chance.randrange(_FAR)
        lines = share * self.sizes["lineitem"] / self.recent["lineitem"]
        orders = share * self.sizes["orders"] / self.recent["orders"]
        gone = f"o_orderdate >= {_RECENT} AND {self._some('o_orderkey', 0.15 * orders)}"
        days = {"l_shipdate": 1, "l_commitdate": 20, "l_receiptdate": 9}
        later = {day: f"date_add(DATE '1998-08-02', l_linenumber + {n})" for day, n in days.items()}
        return [
            f"DELETE FROM lineitem WHERE l_orderkey IN (SELECT o_orderkey FROM orders WHERE {gone})",
            f"DELETE FROM orders WHERE {gone}",
            f"UPDATE orders SET {_UPDATES['orders']} "
            f"WHERE o_orderdate >= {_RECENT} AND {self._some('o_orderkey', 0.35 * orders)}",
            f"UPDATE lineitem SET {_UPDATES['lineitem']} "
            f"WHERE l_shipdate >= {_RECENT} AND {self._some(KEYS['lineitem'], 0.35 * lines)}",
            self._copy("orders", _hit("o_orderkey", new, share / 2), o_orderdate="DATE '1998-08-02'"),
            self._copy("lineitem", _hit("l_orderkey", new, share / 2), **later),
            *(
                f"UPDATE {name} SET {_UPDATES[name]} WHERE {self._some(KEYS[name], share / 10)}"
                for name in ("customer", "partsupp", "part", "supplier")
            ),
        ]

    def _some(self, key: str, share: float) -> str:
        return _hit(key, self.chance.randrange(_FAR), share)

    def _copy(self, name: str, where: str, **values: str) -> str:
        key, original = _COPIED[name]
        listed = [values.get(c, c) for c in self.columns[name]]
        listed[self.columns[name].index(key)] = f"{key} + {_FAR}L * {self.number}"
        return f"INSERT INTO {name} SELECT {', '.join(listed)} FROM {name} WHERE {original} AND {where}"


def _hit(key: str, salt: int, share: float) -> str:
    return f"pmod(xxhash64({key}, {salt}), {_WHOLE}) < {round(_WHOLE * min(share, 1.0))}"
