"""The command `trickle`: arguments in, tables or JSON out, and an exit code that says who has to act."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spark_trickle.cli import source_commands, stream_commands, warehouse_commands
from spark_trickle.cli.pairs import settings_of
from spark_trickle.cli.spark_options import SparkOptionsGroup, choose_spark
from spark_trickle.errors import InternalError, TransactionStateError, TrickleError

if TYPE_CHECKING:
    from spark_trickle.cli.script import ScriptStatement
    from spark_trickle.session import Trickle

# Every import that is not needed for --help is made where it is used: help must be quick.

app = typer.Typer(
    name="trickle",
    cls=SparkOptionsGroup,
    callback=choose_spark,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show the log messages of Java and Spark.")]


@app.command()
def sql(
    warehouse: Annotated[str, typer.Argument(help="A folder, or the address of a catalog.")],
    statement: Annotated[
        str | None, typer.Argument(help="One statement, or several separated by semicolons.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="Read the statements from a file, or from stdin with -."),
    ] = None,
    data_path: Annotated[
        str | None, typer.Option(help="The folder for data files, if the catalog is in PostgreSQL.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A setting as name=value; may be repeated.")
    ] = None,
    max_rows: Annotated[
        int, typer.Option(min=0, help="The most rows of a query to print; 0 means all.")
    ] = 1000,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Run statements in a warehouse, or prompt for them; the folder is created if it does not exist.

    A script stops at its first error. What came before stays, unless it was in a transaction.
    """
    from spark_trickle.cli.connection import open_connection
    from spark_trickle.cli.script import split_script

    if statement is None and file is None and sys.stdin.isatty():
        from spark_trickle.cli.repl import run_repl

        with open_connection(warehouse, settings_of(set_ or []), data_path, verbose) as tr:
            run_repl(tr, max_rows)
        return
    entries = split_script(_read_script(statement, file))
    if not entries:
        raise typer.BadParameter("there is no statement to run")
    with open_connection(warehouse, settings_of(set_ or []), data_path, verbose) as tr:
        _run_entries(tr, entries, max_rows, as_json)


@app.command()
def demo(
    path: Annotated[Path | None, typer.Option(help="Keep the warehouse in this new or empty folder.")] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Stop after this many seconds; without it, run until Ctrl-C.")
    ] = None,
    orders: Annotated[int, typer.Option(min=10, help="The number of orders at the start.")] = 50_000,
    tour: Annotated[
        bool, typer.Option("--tour", help="Take a tour of tables, time travel and the change feed instead.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Show stream tables that stay fresh while a shop takes orders; or take a tour of the warehouse."""

    if path is not None and path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise typer.BadParameter(f"{path} is not an empty folder; the demo needs a fresh one")
    if tour:
        from spark_trickle.cli.demo import run_demo

        run_demo(path, verbose)
    else:
        from spark_trickle.cli.live_demo import run_live

        run_live(path, seconds, orders, verbose)


@app.command()
def doctor(
    warehouse: Annotated[Path, typer.Argument(help="The folder that you want to work in.")] = Path("."),
    quick: Annotated[bool, typer.Option("--quick", help="Check without starting Spark.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check Java, Spark, Python, packages, disk and permissions."""
    from spark_trickle.cli.doctor import exit_code, print_checks, run_checks

    checks = run_checks(warehouse, start_spark=not quick)
    print_checks(checks, as_json)
    raise typer.Exit(exit_code(checks))


@app.command()
def version(as_json: AsJson = False) -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    found = installed("spark-trickle")
    typer.echo(f'{{"version": "{found}"}}' if as_json else f"spark-trickle {found}")


stream_commands.register_commands(app)
source_commands.register_commands(app)
warehouse_commands.register_commands(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; the answer is the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        app(given)
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 0 if done.code is None else 1
    except TrickleError as error:
        return _report_failure(error, "--json" in given)
    except Exception as error:
        traceback.print_exc()  # ours, not the user's: the report needs it
        return _report_failure(InternalError(f"{type(error).__name__}: {error}"), "--json" in given)
    return 0


# --- the parts of `trickle sql` --------------------------------------------------------------------


def _read_script(statement: str | None, file: Path | None) -> str:
    if (statement is None) == (file is None):
        raise typer.BadParameter("give either a statement or a file with -f, not both")
    if statement is not None:
        return statement
    assert file is not None
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise typer.BadParameter(f"{file} cannot be read: {reason}") from None


def _run_entries(tr: Trickle, entries: list[ScriptStatement], most: int, as_json: bool) -> None:
    from spark_trickle.cli import show

    out = show.open_console()
    for entry in entries:
        try:
            answer = show.fetch_answer(tr.sql(entry.sql), most)
        except TrickleError as error:
            if len(entries) > 1:
                error.add_note(f"in the statement at line {entry.line}: {entry.sql.splitlines()[0]}")
            raise
        if as_json:
            typer.echo(show.answer_json(answer))
        else:
            show.render_answer(out, answer)
    _refuse_open_transaction(tr)


def _refuse_open_transaction(tr: Trickle) -> None:
    """A script that ends inside a transaction has lost its work: say so."""
    try:
        tr.sql("ROLLBACK")
    except TransactionStateError:
        return
    raise TransactionStateError(
        "the script ended inside a transaction, so the transaction was rolled back",
        "End the script with COMMIT.",
    )


def _report_failure(error: TrickleError, as_json: bool) -> int:
    from spark_trickle.cli import show

    if as_json:
        typer.echo(show.error_json(error))
    show.report_error(show.open_console(stderr=True), error)
    return error.kind.value


if __name__ == "__main__":
    sys.exit(main())
