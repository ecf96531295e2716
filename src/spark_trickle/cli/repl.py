"""`trickle sql` without a statement: ask for one, run it, show its result, and ask again."""

from __future__ import annotations

import atexit
import readline
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from spark_trickle.cli import show
from spark_trickle.cli.script import split_script
from spark_trickle.errors import TrickleError

if TYPE_CHECKING:
    from spark_trickle.session import Trickle

_HISTORY = Path.home() / ".trickle_history"
_WORDS = """
    SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT JOIN LEFT ON AS INSERT INTO VALUES UPDATE SET DELETE MERGE
    CREATE STREAM TABLE SCHEDULE REFRESH MODE AUTO DIFFERENTIAL FULL IMMEDIATE WITH ALTER DROP SHOW TABLES
    DESCRIBE EXPLAIN BEGIN COMMIT ROLLBACK OPTIMIZE VACUUM trickle.status() trickle.health_check()
""".split()  # noqa: SIM905 a list of quoted words reads worse


def run_repl(tr: Trickle, most: int) -> None:
    """Until the end of the input, `exit` or `quit`; an error ends a statement, not the conversation."""
    _keep_history()
    readline.set_completer_delims(" \t\n,;=")
    readline.set_completer(_Completer(tr).complete)
    readline.parse_and_bind("tab: complete")
    out, pending = show.open_console(), ""
    typer.echo(f"{tr.catalog_url}: end a statement with ; and type exit to leave")
    while True:
        try:
            line = input("trickle> " if not pending else "     ... ")
        except EOFError:
            typer.echo()
            return
        except KeyboardInterrupt:
            typer.echo()
            pending = ""
            continue
        if not pending and line.strip().rstrip(";").lower() in ("exit", "quit"):
            return
        pending = f"{pending}\n{line}" if pending else line
        if not pending.rstrip().endswith(";"):
            pending = pending if pending.strip() else ""
            continue
        _run_text(tr, pending, most, out)
        pending = ""


def _run_text(tr: Trickle, text: str, most: int, out: Console) -> None:
    try:
        for entry in split_script(text):
            show.render_answer(out, show.fetch_answer(tr.sql(entry.sql), most))
    except TrickleError as error:
        show.report_error(out, error)
    except KeyboardInterrupt:
        typer.echo("interrupted")


def _keep_history() -> None:
    if _HISTORY.exists():
        readline.read_history_file(_HISTORY)
    readline.set_history_length(1000)
    atexit.register(readline.write_history_file, _HISTORY)


class _Completer:
    """Words of SQL, and the names of tables as they are when one is asked for."""

    def __init__(self, tr: Trickle) -> None:
        self._tr = tr
        self._found: list[str] = []

    def complete(self, text: str, state: int) -> str | None:
        if state == 0:
            names = [str(r[0]) for r in self._tr.sql("SELECT table_name FROM trickle.tables()").collect()]
            known = [*names, *_WORDS]
            self._found = sorted({w for w in known if w.lower().startswith(text.lower())})
        return self._found[state] if state < len(self._found) else None
