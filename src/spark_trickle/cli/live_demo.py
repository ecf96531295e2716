"""`trickle demo`: a shop that changes all the time, and a screen on which its stream tables stay fresh."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from spark_trickle.cli import show
from spark_trickle.cli.connection import open_connection
from spark_trickle.cli.shop import NAMES, STREAM_TABLES, TABLES, Shop, first_rows

if TYPE_CHECKING:
    from spark_trickle.session import Trickle

_ORDERS = 50_000


def run_live(path: Path | None, seconds: float | None, orders: int = _ORDERS, verbose: bool = False) -> None:
    with tempfile.TemporaryDirectory(prefix="trickle-demo-") as made:
        place = path or Path(made) / "warehouse"
        out = show.open_console()
        out.print(f"Starting Spark for a warehouse in {place} …")
        with open_connection(place, {"default_schedule_seconds": "1"}, verbose=verbose) as tr:
            _open_the_doors(tr, out, orders)
            _Live(tr, out, orders, place).run(seconds)


def _open_the_doors(tr: Trickle, out: Console, orders: int) -> None:
    statements = (*TABLES, *first_rows(orders), *STREAM_TABLES)
    with out.status("") as bar:
        for n, statement in enumerate(statements, start=1):
            bar.update(f"{n} of {len(statements)}: {statement[:70]} …")
            tr.sql(statement)


class _Live:
    """A writer, a scheduler, and a screen that tells of both."""

    def __init__(self, tr: Trickle, out: Console, orders: int, place: Path) -> None:
        self._tr = tr
        self._out = out
        self._place = place
        self._shop = Shop(orders, random.Random(7))
        self._stop = threading.Event()
        self._commits = 0
        self._failure: BaseException | None = None

    def run(self, seconds: float | None) -> None:
        end = None if seconds is None else time.monotonic() + seconds
        writer = threading.Thread(target=self._write_orders, name="shop", daemon=True)
        live = Live(self._draw_screen(), console=self._out, refresh_per_second=2, transient=False)
        try:
            with self._tr.scheduler(), live:
                writer.start()
                while (end is None or time.monotonic() < end) and self._failure is None:
                    time.sleep(0.5)
                    live.update(self._draw_screen())
        except KeyboardInterrupt:
            pass
        finally:
            self._stop.set()
            writer.join()
        if self._failure is not None:
            raise self._failure
        self._audit_tables()

    def _write_orders(self) -> None:
        """The shop has a connection of its own, as another program would."""
        from spark_trickle.session import connect

        try:
            with connect(self._place, spark=self._tr.spark) as own:
                while not self._stop.is_set():
                    with own.transaction():
                        for statement in self._shop.next_statements():
                            own.sql(statement)
                    self._commits += 1
                    self._stop.wait(0.2)
        except BaseException as error:
            self._failure = error

    def _draw_screen(self) -> Group:
        standing = {r["name"].removeprefix("main."): r for r in self._tr.answer("status").dicts()}
        stats = {r["name"].removeprefix("main."): r for r in self._tr.answer("refresh_stats").dicts()}
        shown = Table(title="stream tables", header_style="bold")
        for name in ("name", "mode", "behind", "last", "took", "rows ±", "refreshes", "× FULL"):
            shown.add_column(name, justify="left" if name in ("name", "mode", "last") else "right")
        for name in NAMES:
            shown.add_row(*_make_row(name, standing[name], stats[name]))
        figures = {r["metric"]: r["value"] for r in self._tr.answer("metrics_summary").dicts()}
        seen = figures.get("commit_to_visible_ms_p50")
        head = f"{self._commits} transactions; " + (
            f"from commit to visible: {seen:.0f} ms (median), "
            f"{figures['commit_to_visible_ms_p99']:.0f} ms (p99)"
            if seen is not None
            else "waiting for the first refresh"
        )
        query = "SELECT * FROM city_overview ORDER BY revenue DESC"
        hint = Text(f"trickle sql {self._place} '{query}'\n", style="bold")
        return Group(Panel(head), shown, Text("Query it from another terminal:"), hint)

    def _audit_tables(self) -> None:
        """The last word: every stream table against its own query."""
        self._out.print("Refreshing everything and comparing it with the queries …")
        self._tr.refresh_all()
        for name in NAMES:
            wrong = self._tr.sql(f"SELECT * FROM trickle.audit('{name}')").count()
            self._out.print(f"  {name}: {'exact' if not wrong else f'{wrong} rows differ'}")


def _make_row(name: str, standing: dict[str, Any], stats: dict[str, Any]) -> tuple[str, ...]:
    took, faster = standing["last_duration_ms"], stats["full_over_differential"]
    return (
        name,
        standing["refresh_mode"],
        f"{standing['staleness_seconds']:.1f} s",
        standing["last_action"] or "",
        f"{took:.0f} ms" if took is not None else "",
        str(stats["rows_inserted"] + stats["rows_deleted"]),
        str(stats["refreshes"]),
        f"{faster:.1f}" if faster is not None else "",
    )
