"""A shop that never closes: tables, stream tables over them, and statements that change it all the time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

TABLES = (
    "CREATE TABLE customers (id BIGINT, name STRING, city STRING, PRIMARY KEY (id))",
    "CREATE TABLE orders (id BIGINT, customer_id BIGINT, placed BIGINT, state STRING, PRIMARY KEY (id))",
    "CREATE TABLE items (id BIGINT, order_id BIGINT, product INT, quantity INT, price DECIMAL(10, 2), "
    "PRIMARY KEY (id))",
    "CREATE TABLE payments (id BIGINT, order_id BIGINT, amount DECIMAL(12, 2), PRIMARY KEY (id))",
)
CITIES = ("Aachen", "Bergen", "Cork", "Delft", "Evora", "Faro", "Ghent", "Hull")


def first_rows(orders: int) -> tuple[str, ...]:
    """The shop as it is when the doors open."""
    people = max(orders // 10, 1)
    cities = ", ".join(f"'{c}'" for c in CITIES)
    return (
        f"INSERT INTO customers SELECT id, concat('customer ', id), "
        f"element_at(array({cities}), int(id % {len(CITIES)}) + 1) FROM range({people})",
        f"INSERT INTO orders SELECT id, id % {people}, id, "
        f"CASE id % 3 WHEN 0 THEN 'open' WHEN 1 THEN 'paid' ELSE 'sent' END FROM range({orders})",
        f"INSERT INTO items SELECT id, id DIV 2, int(id % 100), int(id % 4) + 1, "
        f"CAST(5 + id % 50 AS DECIMAL(10, 2)) FROM range({2 * orders})",
        f"INSERT INTO payments SELECT id, id, CAST(20 AS DECIMAL(12, 2)) FROM range({orders}) "
        f"WHERE id % 3 > 0",
    )


# A diamond (both arms of city_overview read orders), a window, a top-k, and an IMMEDIATE one.
STREAM_TABLES = (
    "CREATE STREAM TABLE order_totals SCHEDULE 'calculated' AS "
    "SELECT order_id, sum(quantity * price) AS total FROM items GROUP BY order_id",
    "CREATE STREAM TABLE city_revenue SCHEDULE 'calculated' AS "
    "SELECT c.city, sum(t.total) AS revenue FROM order_totals t JOIN orders o ON t.order_id = o.id "
    "JOIN customers c ON o.customer_id = c.id GROUP BY c.city",
    "CREATE STREAM TABLE city_orders SCHEDULE 'calculated' AS "
    "SELECT c.city, count(*) AS orders FROM orders o JOIN customers c ON o.customer_id = c.id "
    "GROUP BY c.city",
    "CREATE STREAM TABLE city_overview SCHEDULE '1s' AS "
    "SELECT r.city, o.orders, r.revenue FROM city_revenue r JOIN city_orders o ON r.city = o.city",
    "CREATE STREAM TABLE latest_orders SCHEDULE '2s' AS SELECT customer_id, id, placed FROM ("
    "SELECT *, row_number() OVER (PARTITION BY customer_id ORDER BY placed DESC, id DESC) AS rank "
    "FROM orders) WHERE rank <= 3",
    "CREATE STREAM TABLE best_orders SCHEDULE '2s' AS "
    "SELECT order_id, total FROM order_totals ORDER BY total DESC, order_id LIMIT 10",
    "CREATE STREAM TABLE live_states REFRESH MODE IMMEDIATE AS "
    "SELECT state, count(*) AS orders FROM orders GROUP BY state",
)
NAMES = (
    "order_totals",
    "city_revenue",
    "city_orders",
    "city_overview",
    "latest_orders",
    "best_orders",
    "live_states",
)


@dataclass
class Shop:
    """What happens next, by chance: orders come, change and are cancelled with all that belongs to them."""

    orders: int
    chance: random.Random
    next_id: int = field(init=False)
    open_ids: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.next_id = 10 * self.orders + 1

    def _make_id(self) -> int:
        self.next_id += 1
        return self.next_id

    def next_statements(self) -> list[str]:
        """One transaction."""
        people = max(self.orders // 10, 1)
        orders, items, payments = [], [], []
        for _ in range(self.chance.randint(1, 4)):
            order = self._make_id()
            self.open_ids.append(order)
            orders.append(f"({order}, {self.chance.randrange(people)}, {order}, 'open')")
            for _ in range(self.chance.randint(1, 4)):
                price = f"{self.chance.randint(100, 9999) / 100:.2f}"
                product, count = self.chance.randrange(100), self.chance.randint(1, 5)
                items.append(f"({self._make_id()}, {order}, {product}, {count}, {price})")
        found = [
            f"INSERT INTO orders VALUES {', '.join(orders)}",
            f"INSERT INTO items VALUES {', '.join(items)}",
        ]
        if self.chance.random() < 0.5:
            payments.append(f"({self._make_id()}, {self.chance.choice(self.open_ids)}, 20.00)")
            found.append(f"INSERT INTO payments VALUES {', '.join(payments)}")
        if self.chance.random() < 0.5:
            known = self.chance.randrange(self.orders)
            found.append(f"UPDATE orders SET state = 'sent' WHERE id IN ({known}, {self.open_ids[0]})")
        if self.chance.random() < 0.3:
            found.append(
                f"UPDATE items SET price = price + 1 WHERE order_id = {self.chance.randrange(self.orders)}"
            )
        if len(self.open_ids) > 20:
            gone = self.open_ids.pop(0)
            found += [f"DELETE FROM {t} WHERE {c} = {gone}" for t, c in _PARTS]
        if self.chance.random() < 0.1:
            city = self.chance.choice(CITIES)
            found.append(f"UPDATE customers SET city = '{city}' WHERE id = {self.chance.randrange(people)}")
        return found


_PARTS = (("orders", "id"), ("items", "order_id"), ("payments", "order_id"))
