"""A seed -> Nexmark, an auction site: its tables, their rows, batches that change them, and ten queries.

Everything is SQL text that Spark and DuckDB both understand. The queries are the benchmark's own, over
tables instead of streams; its ten-second windows last a minute here, since the site is small and slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

Row = tuple[Any, ...]

TABLES: dict[str, tuple[tuple[str, str], ...]] = {
    "person": (
        ("id", "bigint"),
        ("name", "string"),
        ("email_address", "string"),
        ("city", "string"),
        ("state", "string"),
        ("date_time", "timestamp"),
    ),
    "auction": (
        ("id", "bigint"),
        ("item_name", "string"),
        ("initial_bid", "bigint"),
        ("reserve", "bigint"),
        ("date_time", "timestamp"),
        ("expires", "timestamp"),
        ("seller", "bigint"),
        ("category", "bigint"),
    ),
    "bid": (
        ("auction", "bigint"),
        ("bidder", "bigint"),
        ("price", "bigint"),
        ("channel", "string"),
        ("date_time", "timestamp"),
    ),
}

EVENTS, MORE = (
    500,
    100,
)  # at first, and with each batch; of every 50 one is a person, three are auctions, and the rest are bids
_OPENING = datetime(2026, 1, 1, 12, 0, 0)
_BETWEEN = timedelta(seconds=2)
_FIRST_PERSON, _FIRST_AUCTION = 100, 1000
_PLACES = (
    ("Portland", "OR"),
    ("Boise", "ID"),
    ("Phoenix", "AZ"),
    ("Los Angeles", "CA"),
    (None, "OR"),
    ("Kent", None),
)
_CHANNELS = ("Apple", "Google", "Baidu", None)

_MINUTE = "date_trunc('MINUTE', date_time)"
_WINNERS = """
SELECT a.id, a.item_name, a.seller, a.category, a.expires, b.bidder, b.price, b.date_time,
  row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.bidder, b.channel) AS place
FROM auction a JOIN bid b ON a.id = b.auction WHERE b.date_time BETWEEN a.date_time AND a.expires
"""
_COUNTS = f"""
SELECT auction, window_start, count(*) AS num FROM bid
LATERAL VIEW explode(
  sequence({_MINUTE} - INTERVAL '4' MINUTE, {_MINUTE}, INTERVAL '1' MINUTE)
) hops AS window_start
GROUP BY auction, window_start
"""

QUERIES = {
    # every bid as it is
    "q0": "SELECT auction, bidder, price, date_time, channel FROM bid",
    # prices in euros
    "q1": "SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(20, 3)) AS price, date_time FROM bid",
    # bids on some auctions
    "q2": "SELECT auction, price FROM bid WHERE auction % 4 = 0",
    # who sells in one category in some states
    "q3": """
SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id
WHERE a.category = 10 AND (p.state = 'OR' OR p.state = 'ID' OR p.state = 'CA')
""",
    # the average price of the winning bids of a category
    "q4": """
SELECT q.category, avg(q.final) AS price
FROM (
  SELECT max(b.price) AS final, a.category FROM auction a, bid b
  WHERE a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires GROUP BY a.id, a.category
) q
GROUP BY q.category
""",
    # the auctions with the most bids in windows of five minutes, one every minute
    "q5": f"""
WITH counts AS ({_COUNTS})
SELECT c.auction, c.num, c.window_start
FROM counts c JOIN (SELECT max(num) AS most, window_start FROM counts GROUP BY window_start) m
  ON c.window_start = m.window_start AND c.num >= m.most
""",
    # the average price of a seller's last ten auctions, at each of them
    "q6": f"""
SELECT q.seller, q.id, avg(q.price) OVER (
  PARTITION BY q.seller ORDER BY q.expires, q.id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW
) AS price
FROM ({_WINNERS}) q WHERE q.place = 1
""",
    # the highest bids of every minute
    "q7": f"""
SELECT b.auction, b.bidder, b.price, b.date_time
FROM bid b JOIN (SELECT max(price) AS price, {_MINUTE} AS window_start FROM bid GROUP BY {_MINUTE}) m
  ON b.price = m.price
WHERE b.date_time >= m.window_start AND b.date_time < m.window_start + INTERVAL '1' MINUTE
""",
    # who came and opened an auction within the same minute
    "q8": f"""
SELECT p.id, p.name, p.window_start
FROM (SELECT id, name, {_MINUTE} AS window_start FROM person GROUP BY id, name, {_MINUTE}) p
JOIN (SELECT seller, {_MINUTE} AS window_start FROM auction GROUP BY seller, {_MINUTE}) a
  ON p.id = a.seller AND p.window_start = a.window_start
""",
    # the winning bid of each auction
    "q9": f"SELECT id, item_name, seller, category, bidder, price, date_time FROM ({_WINNERS}) q WHERE place = 1",
}


def create_tables() -> list[str]:
    return [
        f"CREATE TABLE {name} ({', '.join(f'{column} {kind}' for column, kind in columns)})"
        for name, columns in TABLES.items()
    ]


def insert_rows(seed: int, events: int = EVENTS) -> list[str]:
    """The site as it opens: one INSERT for each table."""
    return _inserts(Site(Random(seed)).events(events))


def batch(seed: int, number: int) -> list[str]:
    """Statements that change all three tables at once; every number gives others."""
    chance = Random(f"{seed} {number}")
    site = Site(chance, at=EVENTS + MORE * number)
    return [*_inserts(site.events(MORE)), *_bids(chance, number), *_auctions(number), *_persons(number)]


# --- rows ----------------------------------------------------------------------------------------------


@dataclass
class Site:
    """What happens, event by event, as the benchmark's generator has it."""

    chance: Random
    at: int = 0

    def events(self, count: int) -> Iterator[tuple[str, Row]]:
        for n in range(self.at, self.at + count):
            epoch, rest = divmod(n, 50)
            now = _OPENING + n * _BETWEEN
            if rest == 0:
                yield "person", self._person(_FIRST_PERSON + epoch, now)
            elif rest < 4:
                yield "auction", self._auction(_FIRST_AUCTION + 3 * epoch + rest - 1, epoch, now)
            else:
                yield "bid", self._bid(epoch, now)

    def _person(self, number: int, now: datetime) -> Row:
        city, state = self.chance.choice(_PLACES)
        return number, f"name {number}", f"{number}@example.com", city, state, now

    def _auction(self, number: int, epoch: int, now: datetime) -> Row:
        price = self.chance.randint(1, 100)
        reserve = self.chance.choice((None, price + 100))
        open_for = timedelta(seconds=self.chance.randint(60, 400))
        category = self.chance.choice((10, 10, 10, 11, 12, None))
        return number, f"item {number}", price, reserve, now, now + open_for, self._seller(epoch), category

    def _seller(self, epoch: int) -> int:
        """Mostly the person who came last."""
        back = self.chance.choice((0, 0, self.chance.randint(0, epoch)))
        return _FIRST_PERSON + epoch - back

    def _bid(self, epoch: int, now: datetime) -> Row:
        """Half of all bids are for the newest auction; prices are few, so that some are the same."""
        last = _FIRST_AUCTION + 3 * epoch + 2
        auction = self.chance.choice((last, last - self.chance.randint(0, min(8, 3 * epoch + 2))))
        bidder = _FIRST_PERSON + self.chance.randint(0, epoch)
        return auction, bidder, 10 * self.chance.randint(1, 100), self.chance.choice(_CHANNELS), now


def _inserts(events: Iterator[tuple[str, Row]]) -> list[str]:
    rows: dict[str, list[str]] = {name: [] for name in TABLES}
    for name, row in events:
        rows[name].append(f"({', '.join(_literal(v) for v in row)})")
    return [f"INSERT INTO {name} VALUES {', '.join(found)}" for name, found in rows.items() if found]


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value}'"
    return f"'{value}'" if isinstance(value, str) else str(value)


# --- batches -------------------------------------------------------------------------------------------


def _bids(chance: Random, number: int) -> list[str]:
    n = number
    return [
        # a late bid that beats all others, and leaders that fall back or go
        f"UPDATE bid SET price = price + 700 WHERE auction % 5 = {n % 5} AND bidder % 3 = {n % 3}",
        f"UPDATE bid SET price = price - 600 WHERE price > 900 AND auction % 3 = {n % 3}",
        f"DELETE FROM bid WHERE price > 800 AND auction % 4 = {n % 4}",
        # to other auctions, other windows, and out of the time of an auction
        f"UPDATE bid SET auction = auction - 1 WHERE auction % 6 = {n % 6} AND price % 20 = 0",
        f"UPDATE bid SET date_time = date_time + INTERVAL '3' MINUTE WHERE auction % 7 = {n % 7}",
        f"UPDATE bid SET date_time = date_time - INTERVAL '90' SECOND WHERE price % 70 = {10 * (n % 7)}",
        # all bids of an auction go; others are there twice
        f"DELETE FROM bid WHERE auction = {_FIRST_AUCTION + chance.randint(0, 3 * EVENTS // 50 - 1)}",
        f"INSERT INTO bid SELECT * FROM bid WHERE auction % 8 = {n % 8} AND price % 30 = 0",
        f"UPDATE bid SET channel = NULL, bidder = bidder + 1 WHERE price % 50 = {10 * (n % 5)}",
    ]


def _auctions(number: int) -> list[str]:
    n = number
    return [
        f"UPDATE auction SET category = 10 + (coalesce(category, 9) + 2) % 3 WHERE id % 4 = {n % 4}",
        f"UPDATE auction SET category = NULL WHERE id % 13 = {n % 13}",
        f"UPDATE auction SET seller = seller - 1 WHERE id % 5 = {n % 5}",
        # open for a shorter time, at another time, and under another number
        f"UPDATE auction SET expires = expires - INTERVAL '1' MINUTE WHERE id % 5 = {(n + 2) % 5}",
        f"UPDATE auction SET date_time = date_time + INTERVAL '40' SECOND WHERE id % 4 = {(n + 1) % 4}",
        f"UPDATE auction SET id = id + {1000 * (n + 1)}, item_name = 'moved' WHERE id % 11 = {n % 11}",
        f"DELETE FROM auction WHERE id % 10 = {n % 10}",
    ]


def _persons(number: int) -> list[str]:
    n = number
    return [
        f"UPDATE person SET state = CASE WHEN state = 'OR' THEN 'WA' ELSE 'OR' END WHERE id % 4 = {n % 4}",
        f"UPDATE person SET name = 'renamed {n}', city = NULL WHERE id % 5 = {n % 5}",
        f"UPDATE person SET date_time = date_time + INTERVAL '40' SECOND WHERE id % 3 = {n % 3}",
        # under another number, with and without the auctions of that person
        f"UPDATE person SET id = id + {1000 * (n + 1)} WHERE id % 6 = {n % 6}",
        f"UPDATE auction SET seller = seller + {1000 * (n + 1)} WHERE seller % 12 = {n % 6}",
        f"DELETE FROM person WHERE id % 13 = {n % 13}",
    ]
