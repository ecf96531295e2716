"""The demo as data: a small shop, the statements that it runs, and what is said about them."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from spark_trickle.cli import duck
from spark_trickle.cli.connection import open_connection
from spark_trickle.cli.show import QueryResult, describe_result, fetch_answer, make_table, report_error
from spark_trickle.errors import TrickleError

if TYPE_CHECKING:
    from spark_trickle.session import Trickle

_MOST_ROWS = 50


@dataclass(frozen=True)
class DemoStep:
    """Something worth showing. `keep` names the snapshot after it, for {name} in later statements."""

    title: str
    statements: tuple[str, ...]
    keep: str | None = None
    fails: bool = False  # it shows what an error looks like


SHOP = (
    DemoStep(
        "Two tables. The primary key is enforced.",
        (
            """
            CREATE TABLE products (
              id BIGINT, name STRING NOT NULL, price DECIMAL(10, 2), stock INT DEFAULT 0, PRIMARY KEY (id))
            """,
            "CREATE TABLE orders (id BIGINT, product_id BIGINT, quantity INT, PRIMARY KEY (id))",
        ),
    ),
    DemoStep(
        "Some products. Every commit is a snapshot of the whole warehouse.",
        (
            """
            INSERT INTO products VALUES
              (1, 'kettle', 39.90, 12), (2, 'teapot', 24.50, 30), (3, 'cup', 4.20, 200)
            """,
        ),
        keep="opening",
    ),
    DemoStep(
        "A price changes, and a delivery comes in: known products get stock, new ones a row.",
        (
            "UPDATE products SET price = price * 1.10 WHERE name = 'kettle'",
            "CREATE TABLE delivery AS SELECT * FROM VALUES (2, 'teapot', 24.50, 10), (4, 'sieve', 6.00, 40)"
            " AS v(id, name, price, stock)",
            """
            MERGE INTO products AS p USING delivery AS d ON p.id = d.id
              WHEN MATCHED THEN UPDATE SET stock = p.stock + d.stock
              WHEN NOT MATCHED THEN INSERT *
            """,
        ),
    ),
    DemoStep(
        "An order: two tables change in one commit, or not at all.",
        (
            "BEGIN",
            "INSERT INTO orders VALUES (100, 3, 6)",
            "UPDATE products SET stock = stock - 6 WHERE id = 3",
            "COMMIT",
        ),
    ),
    DemoStep("A product is deleted.", ("DELETE FROM products WHERE name = 'teapot'",), keep="now"),
    DemoStep("What the shop has now.", ("SELECT * FROM products ORDER BY id",)),
    DemoStep(
        "A mistake is refused with a reason, and leaves nothing behind.",
        ("INSERT INTO products VALUES (5, 'spoon', 2.00, 80), (3, 'mug', 5.00, 10)",),
        fails=True,
    ),
    DemoStep(
        "Time travel: today's rows beside those of the first day.",
        (
            """
            SELECT p.id, p.name, p.price, first.price AS first_price, p.stock, first.stock AS first_stock
            FROM products AS p LEFT JOIN products VERSION AS OF {opening} AS first ON p.id = first.id
            ORDER BY p.id
            """,
        ),
    ),
    DemoStep(
        "The change feed: exactly what has changed since then, with both images of updated rows.",
        (
            """
            SELECT _commit_version, _change_type, id, name, price, stock
            FROM trickle.changes('products', {opening}, {now})
            ORDER BY _commit_version, id, _change_type DESC
            """,
        ),
    ),
    DemoStep(
        "Each change was appended as a small file. OPTIMIZE merges these; the content stays the same.",
        (
            """
            SELECT role, row_count, deleted_rows, begin_snapshot
            FROM trickle.files('products') ORDER BY begin_snapshot
            """,
            "OPTIMIZE products",
            "SELECT role, row_count, deleted_rows, begin_snapshot FROM trickle.files('products')",
        ),
    ),
    DemoStep(
        "Old snapshots and the change feed are still available, until VACUUM deletes them.",
        (
            "SELECT count(*) AS products, sum(stock) AS pieces FROM products VERSION AS OF {opening}",
            "SELECT snapshot_id, message FROM trickle.snapshots() ORDER BY snapshot_id",
        ),
    ),
)

DUCK_QUERY = "SELECT name, stock FROM lake.products ORDER BY name"


def run_demo(path: Path | None, verbose: bool) -> None:
    out = Console(highlight=False, soft_wrap=True)
    if path is not None:
        _run_steps(out, path.absolute(), verbose)
        out.print(f"\nThe warehouse stays in {path}. Try:", markup=False)
        out.print(f'   trickle sql {path} "SELECT * FROM products"', markup=False)
        return
    with tempfile.TemporaryDirectory(prefix="trickle-demo-") as folder:
        _run_steps(out, Path(folder) / "shop", verbose)
    out.print(
        "\nThe warehouse was in a temporary folder and has been deleted; trickle demo --path shop keeps it."
    )


def _run_steps(out: Console, warehouse: Path, verbose: bool) -> None:
    out.print(f"Opening a new warehouse in {warehouse}; Spark takes some seconds to start.", markup=False)
    with open_connection(warehouse, verbose=verbose) as tr:
        kept: dict[str, int] = {}
        for number, step in enumerate(SHOP, start=1):
            _show_step(out, tr, step, number, kept)
    _show_duckdb(out, warehouse)


def _show_step(out: Console, tr: Trickle, step: DemoStep, number: int, kept: dict[str, int]) -> None:
    _print_title(out, number, step.title)
    for statement in step.statements:
        sql = dedent(statement).strip().format(**kept)
        _print_code(out, f"{sql};")
        try:
            _show_answer(out, fetch_answer(tr.sql(sql), _MOST_ROWS))
        except TrickleError as error:
            if not step.fails:
                raise
            report_error(out, error)
    if step.keep is not None:
        kept[step.keep] = tr.snapshot


def _print_title(out: Console, number: int, title: str) -> None:
    out.print(Text(f"\n{number}. {title}", style="bold"))


def _print_code(out: Console, text: str) -> None:
    out.print(Text(indent(text, "   "), style="cyan"))


def _show_answer(out: Console, answer: QueryResult) -> None:
    if answer.is_result:
        out.print(Text(f"   -> {describe_result(answer)}", style="green"))
    else:
        out.print(Padding.indent(make_table(answer), 3))


def _show_duckdb(out: Console, warehouse: Path) -> None:
    _print_title(out, len(SHOP) + 1, "The same data in DuckDB: the catalog has an open format, DuckLake 1.0.")
    _print_code(out, f"INSTALL ducklake; INSTALL sqlite;\n{duck.attach_sql(warehouse)};\n{DUCK_QUERY};")
    answer = duck.ask_duckdb(warehouse, DUCK_QUERY)
    if answer is None:
        out.print("   DuckDB is not installed, so this was skipped.")
    else:
        _show_answer(out, answer)
