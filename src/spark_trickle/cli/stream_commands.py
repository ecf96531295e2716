"""Commands for stream tables: each is one call of the API, shown as a table or as JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from spark_trickle.model.stream import RefreshReport
    from spark_trickle.session import Trickle

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
Warehouse = Annotated[str, typer.Argument(help="A folder, or the address of a catalog.")]
Name = Annotated[str, typer.Argument(help="The name of a stream table.")]
DataPath = Annotated[
    str | None, typer.Option(help="The folder for data files, if the catalog is in PostgreSQL.")
]
Set = Annotated[list[str] | None, typer.Option("--set", help="A setting as name=value; may be repeated.")]


def register_commands(app: typer.Typer) -> None:
    for command in (
        init,
        create,
        refresh,
        run,
        status,
        explain,
        history,
        dag,
        health,
        audit,
        changes,
        optimize,
        vacuum,
    ):
        app.command()(command)


# --- commands --------------------------------------------------------------------------------------


def init(warehouse: Warehouse, data_path: DataPath = None, as_json: AsJson = False) -> None:
    """Create a warehouse; an existing one is left as it is."""
    from spark_trickle.lake.warehouse import open_warehouse

    made = open_warehouse(warehouse, data_path, 60.0)
    print_value({"catalog": made.catalog_url, "data": made.storage.root}, as_json)
    made.engine.dispose()


def create(
    warehouse: Warehouse,
    name: Name,
    query: Annotated[str, typer.Argument(help="The query whose result the stream table keeps.")],
    schedule: Annotated[
        str | None, typer.Option(help="A duration such as 30s or 5m, calculated, or a cron expression.")
    ] = None,
    mode: Annotated[str, typer.Option(help="AUTO, DIFFERENTIAL, FULL or IMMEDIATE.")] = "AUTO",
    data_path: DataPath = None,
    as_json: AsJson = False,
) -> None:
    """Create a stream table and fill it."""
    with open_connection_at(warehouse, data_path) as tr:
        done = tr.create_stream_table(name, query, schedule=schedule, refresh_mode=mode)
        told = {"warnings": list(done.warnings)} if done.warnings else {}
        print_value({"name": name, "rows": done.rows_inserted, "snapshot": done.snapshot, **told}, as_json)


def refresh(
    warehouse: Warehouse,
    name: Annotated[str | None, typer.Argument(help="A stream table; by default all of them.")] = None,
    upstream: Annotated[
        bool, typer.Option("--upstream", help="First refresh the stream tables that it reads.")
    ] = False,
    data_path: DataPath = None,
    as_json: AsJson = False,
) -> None:
    """Bring one stream table, or all of them, up to date."""
    with open_connection_at(warehouse, data_path) as tr:
        reports = tr.refresh_all() if name is None else [tr.refresh(name, upstream=upstream)]
        columns = ("name", "action", "rows_inserted", "rows_deleted", "delta_rows", "duration_ms", "reason")
        if as_json:
            for report in reports:
                print_value(asdict(report), True)
        else:
            _print_table(columns, [tuple(_round_value(getattr(r, c)) for c in columns) for r in reports])


def run(
    warehouse: Warehouse,
    seconds: Annotated[float | None, typer.Option(help="Stop after this many seconds.")] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Serve Prometheus metrics at /metrics on this port.")
    ] = None,
    metrics_address: Annotated[
        str, typer.Option(help="The address on which to serve metrics.")
    ] = "127.0.0.1",
    webhook: Annotated[str | None, typer.Option(help="POST every alert as JSON to this URL.")] = None,
    set_: Set = None,
    data_path: DataPath = None,
    as_json: AsJson = False,
) -> None:
    """Keep the stream tables of a warehouse fresh until Ctrl-C."""
    from spark_trickle.cli.daemon import Outlets, serve_warehouse

    with open_connection_at(warehouse, data_path, set_) as tr:
        serve_warehouse(tr, seconds, Outlets(metrics_port, metrics_address, webhook), as_json)


def status(
    warehouse: Warehouse,
    watch: Annotated[
        bool, typer.Option("--watch", help="Update the display every second until Ctrl-C.")
    ] = False,
    data_path: DataPath = None,
    as_json: AsJson = False,
) -> None:
    """Show the status of every stream table, and what it is waiting for."""
    with open_connection_at(warehouse, data_path) as tr:
        if not watch:
            print_answer(tr, "status", as_json=as_json)
            return
        from rich.live import Live

        with Live(_status_table(tr), refresh_per_second=2, screen=False) as live:
            while True:
                time.sleep(1)
                live.update(_status_table(tr))


def explain(
    warehouse: Warehouse,
    name: Name,
    executed: Annotated[
        bool, typer.Option("--executed", help="Show what a refresh executed, operator by operator.")
    ] = False,
    number: Annotated[int, typer.Option("-n", help="Which refresh: 1 is the newest.", min=1)] = 1,
    data_path: DataPath = None,
    as_json: AsJson = False,
) -> None:
    """Explain a stream table: operators, inner tables, delta programs, costs, and the next refresh."""
    with open_connection_at(warehouse, data_path) as tr:
        if executed:
            print_answer(tr, "explain_refresh", name, number, as_json=as_json)
            return
        rows = _fetch_rows(tr.sql(f"SELECT * FROM trickle.explain_stream_table({_quote_text(name)})"))
        print_rows(("property", "value"), rows, as_json)


def history(
    warehouse: Warehouse,
    name: Name,
    most: Annotated[int, typer.Option("-n", help="The most refreshes to show.")] = 20,
    data_path: DataPath = None,
    as_json: AsJson = False,
) -> None:
    """Show the last refreshes of a stream table."""
    with open_connection_at(warehouse, data_path) as tr:
        print_answer(tr, "refresh_history", name, most, as_json=as_json)


def dag(
    warehouse: Warehouse,
    form: Annotated[str, typer.Option("--format", help="The output format: tree, mermaid or dot.")] = "tree",
    data_path: DataPath = None,
    as_json: AsJson = False,
) -> None:
    """Show which stream table reads which table."""
    from spark_trickle.cli.dag import FORMS, draw_graph

    if form not in FORMS:
        raise typer.BadParameter(f"there is no format {form}; the formats are {', '.join(FORMS)}")
    with open_connection_at(warehouse, data_path) as tr:
        found = tr.answer("dependency_tree")
    if as_json:
        print_rows(tuple(found.columns), found.rows, True)
    else:
        typer.echo(draw_graph(found.dicts(), form))


def health(warehouse: Warehouse, data_path: DataPath = None, as_json: AsJson = False) -> None:
    """Check that all is well; the exit code is 1 if something is wrong."""
    with open_connection_at(warehouse, data_path) as tr:
        found = print_answer(tr, "health_check", as_json=as_json)
    if any(row["severity"] == "error" for row in found):
        raise typer.Exit(1)


def audit(warehouse: Warehouse, name: Name, data_path: DataPath = None, as_json: AsJson = False) -> None:
    """Compute a stream table again and compare; the exit code is 1 if a row differs."""
    with open_connection_at(warehouse, data_path) as tr:
        frame = tr.sql(f"SELECT * FROM trickle.audit({_quote_text(name)})")
        rows = _fetch_rows(frame)
        print_rows(tuple(frame.columns), rows, as_json)
        if not as_json:
            typer.echo("exact" if not rows else f"{len(rows)} distinct rows differ")
    if rows:
        raise typer.Exit(1)


def changes(
    warehouse: Warehouse,
    name: Annotated[str, typer.Argument(help="A table or stream table.")],
    since: Annotated[
        int | None, typer.Option(help="Show changes after this snapshot; by default from now on.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for more changes until Ctrl-C.")
    ] = False,
    data_path: DataPath = None,
    as_json: AsJson = False,
) -> None:
    """Show the changes of a table, row by row."""
    with open_connection_at(warehouse, data_path) as tr:
        known = tr.snapshot if since is None else since
        while True:
            upto = tr.snapshot
            if upto > known:
                frame = tr.changes(name, known, upto)
                rows = _fetch_rows(frame)
                if rows:
                    print_rows(tuple(frame.columns), rows, as_json)
                known = upto
            if not follow:
                return
            time.sleep(0.5)


def optimize(
    warehouse: Warehouse,
    name: Annotated[str, typer.Argument(help="A table or stream table.")],
    data_path: DataPath = None,
    as_json: AsJson = False,
) -> None:
    """Merge the files of a table into a few; its content stays the same."""
    with open_connection_at(warehouse, data_path) as tr:
        done = tr.sql(f"OPTIMIZE {name}").collect()[0]
        print_value({"name": name, "snapshot": done.snapshot}, as_json)


def vacuum(
    warehouse: Warehouse,
    hours: Annotated[float | None, typer.Option(help="Keep snapshots younger than this.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be deleted.")] = False,
    data_path: DataPath = None,
    as_json: AsJson = False,
) -> None:
    """Delete files that no snapshot, stream table or reader needs any more."""
    with open_connection_at(warehouse, data_path) as tr:
        tail = f" RETAIN {hours:g} HOURS" if hours is not None else ""
        if dry_run:
            files = tr.sql(f"VACUUM{tail} DRY RUN").collect()
            print_rows(("path", "bytes", "reason"), files, as_json)
            return
        done = tr.sql(f"VACUUM{tail}").collect()[0]
        print_value({"snapshot": done.snapshot}, as_json)


# --- showing ---------------------------------------------------------------------------------------


def open_connection_at(warehouse: str, data_path: str | None, pairs: list[str] | None = None) -> Any:
    from spark_trickle.cli.connection import open_connection
    from spark_trickle.cli.pairs import settings_of

    if "://" not in warehouse and Path(warehouse).exists() and not Path(warehouse).is_dir():
        raise typer.BadParameter(f"{warehouse} is a file; give the folder of a warehouse")
    return open_connection(warehouse, settings_of(pairs or []), data_path)


def _fetch_rows(frame: Any) -> list[tuple[Any, ...]]:
    from spark_trickle.spark.run import collect_rows

    return [tuple(row) for row in collect_rows(frame)]


def _quote_text(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


def print_answer(tr: Trickle, function: str, *arguments: str | int, as_json: bool) -> list[dict[str, Any]]:
    found = tr.answer(function, *arguments)
    print_rows(tuple(found.columns), found.rows, as_json)
    return found.dicts()


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]], as_json: bool) -> None:
    if as_json:
        for row in rows:
            print_value(dict(zip(columns, row, strict=True)), True)
    else:
        _print_table(columns, rows)


def print_value(value: dict[str, Any], as_json: bool) -> None:
    from spark_trickle.cli import show

    if as_json:
        typer.echo(show.to_json(show.to_plain(value)))
    else:
        typer.echo(", ".join(f"{k} {show.to_plain(v)}" for k, v in value.items() if v is not None))


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    from spark_trickle.cli import show

    shown = show.QueryResult(
        tuple(columns), ("",) * len(columns), tuple(tuple(_round_value(v) for v in r) for r in rows)
    )
    show.open_console().print(show.make_table(shown))


def _status_table(tr: Trickle) -> Any:
    from spark_trickle.cli import show

    found = tr.answer("status")
    wanted = (
        "name",
        "status",
        "effective_mode",
        "schedule",
        "staleness_seconds",
        "last_action",
        "waiting_for",
    )
    rows = tuple(tuple(_round_value(d[c]) for c in wanted) for d in found.dicts())
    return show.make_table(show.QueryResult(wanted, ("",) * len(wanted), rows))


def _round_value(value: Any) -> Any:
    """For people: tenths, and whole seconds."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return round(value, 1) if isinstance(value, float) else value


def report_line(report: RefreshReport) -> str:
    return (
        f"{report.name} {report.action} +{report.rows_inserted} -{report.rows_deleted} "
        f"in {report.duration_ms:.0f} ms: {report.reason}"
    )
