"""Commands for sources: attach, mirror, sync, publish; long copies show how far they are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spark_trickle.cli.stream_commands import (
    AsJson,
    DataPath,
    Name,
    Warehouse,
    open_connection_at,
    print_answer,
    print_value,
)

if TYPE_CHECKING:
    from spark_trickle.sources.progress import Listen

Source = Annotated[str, typer.Argument(help="The name that the source was attached under.")]


def register_commands(app: typer.Typer) -> None:
    for command in (attach, mirror, sync, resync, detach, publish, unpublish, sources):
        app.command()(command)


def attach(
    warehouse: Warehouse,
    source: Annotated[str, typer.Argument(help="The name to give to the source.")],
    kind: Annotated[
        str, typer.Option("--type", help="postgres, delta, iceberg, files or kafka.")
    ] = "postgres",
    path: Annotated[str, typer.Option(help="The folder of the tables, for a source of type delta.")] = "",
    dsn: Annotated[str, typer.Option(help="env:NAME, or an address without a password.")] = "",
    service: Annotated[str, typer.Option(help="A name in pg_service.conf.")] = "",
    passfile: Annotated[str, typer.Option(help="A file with the password.")] = "",
    tables: Annotated[str, typer.Option(help="The tables that may be mirrored, such as public.*.")] = "",
    cdc_mode: Annotated[str, typer.Option(help="How to capture changes: auto, trigger or wal.")] = "",
    option: Annotated[
        list[str] | None, typer.Option("--option", help="More options as name=value; may be repeated.")
    ] = None,
    data_path: DataPath = None,
    as_json: AsJson = False,
) -> None:
    """Attach another system; the catalog stores where the password is, never the password itself."""
    from spark_trickle.cli.pairs import settings_of

    given = {
        "path": path,
        "dsn": dsn,
        "service": service,
        "passfile": passfile,
        "tables": tables,
        "cdc_mode": cdc_mode,
    }
    options = {**{k: v for k, v in given.items() if v}, **settings_of(option or [])}
    with open_connection_at(warehouse, data_path) as tr:
        tr.attach_source(source, kind, **options)
        print_value({"source": source, "attached": True}, as_json)


def mirror(
    warehouse: Warehouse,
    table: Annotated[str, typer.Argument(help="source.schema.table, or a source together with --tables.")],
    name: Annotated[
        str | None, typer.Option("--as", help="The name of the mirror; by default that of the table.")
    ] = None,
    tables: Annotated[str | None, typer.Option(help="The tables to mirror, such as public.*.")] = None,
    data_path: DataPath = None,
    as_json: AsJson = False,
) -> None:
    """Mirror one or more tables of a source: copy them, then follow their changes."""
    with open_connection_at(warehouse, data_path) as tr, _show_progress(as_json) as listen:
        if tables is not None:
            done = tr.add_tables(table, tables, progress=listen)
        else:
            done = tr.create_mirror(name or table.rpartition(".")[2], table, progress=listen)
        print_value({"mirrored": table, "rows": done.rows_inserted, "snapshot": done.snapshot}, as_json)


def sync(
    warehouse: Warehouse,
    source: Source,
    follow: Annotated[bool, typer.Option("--follow", help="Keep syncing until Ctrl-C.")] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Take the source over from another copy of the warehouse.")
    ] = False,
    data_path: DataPath = None,
    as_json: AsJson = False,
) -> None:
    """Bring the mirrors of a source up to date, and the tables published to it."""
    with open_connection_at(warehouse, data_path) as tr, _show_progress(as_json) as listen:
        while True:
            report = tr.sync(source, listen, take_over=take_over)
            take_over = False
            if not follow or report.tables or report.problems:
                print_value(asdict(report), as_json)
            if not follow:
                raise typer.Exit(1 if report.problems else 0)
            time.sleep(0.5)


def resync(
    warehouse: Warehouse,
    table: Annotated[str, typer.Argument(help="A mirror.")],
    data_path: DataPath = None,
    as_json: AsJson = False,
) -> None:
    """Copy the source table of a mirror again; only rows that differ are changed."""
    with open_connection_at(warehouse, data_path) as tr, _show_progress(as_json) as listen:
        done = tr.resync(table, listen)
        print_value(
            {"resynced": table, "inserted": done.rows_inserted, "deleted": done.rows_deleted}, as_json
        )


def detach(
    warehouse: Warehouse,
    source: Source,
    cascade: Annotated[bool, typer.Option("--cascade", help="Also drop its mirrors.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Detach even if the source cannot be reached.")
    ] = False,
    data_path: DataPath = None,
    as_json: AsJson = False,
) -> None:
    """Remove everything that spark-trickle created from a source; its mirrors become ordinary tables."""
    with open_connection_at(warehouse, data_path) as tr:
        tr.detach_source(source, cascade=cascade, force=force)
        print_value({"source": source, "attached": False}, as_json)


def publish(
    warehouse: Warehouse,
    name: Name,
    source: Source,
    target: Annotated[
        str | None, typer.Option("--as", help="The published table in the source, as schema.table.")
    ] = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Compare the published table with the stream table, and correct the rows that differ.",
        ),
    ] = False,
    option: Annotated[
        list[str] | None, typer.Option("--option", help="Options as name=value; may be repeated.")
    ] = None,
    data_path: DataPath = None,
    as_json: AsJson = False,
) -> None:
    """Publish a stream table as a table in a source; each refresh is one transaction there."""
    from spark_trickle.cli.pairs import settings_of

    given = settings_of(option or [])
    with open_connection_at(warehouse, data_path) as tr:
        done = tr.repair_published(name) if repair else tr.publish(name, source, target, **given)
        print_value(asdict(done), as_json)


def unpublish(
    warehouse: Warehouse,
    name: Name,
    drop: Annotated[bool, typer.Option("--drop", help="Also drop the published table.")] = False,
    data_path: DataPath = None,
    as_json: AsJson = False,
) -> None:
    """Stop publishing a stream table; the published table stays for its readers."""
    with open_connection_at(warehouse, data_path) as tr:
        tr.unpublish(name, keep=not drop)
        print_value({"name": name, "published": False}, as_json)


def sources(
    warehouse: Warehouse,
    health: Annotated[
        bool, typer.Option("--health", help="Show all checks, also those that are ok.")
    ] = False,
    data_path: DataPath = None,
    as_json: AsJson = False,
) -> None:
    """Show sources, mirrors and published tables: how they are captured, and what is wrong."""
    with open_connection_at(warehouse, data_path) as tr:
        if health:
            found = print_answer(tr, "check_cdc_health", as_json=as_json)
            raise typer.Exit(0 if all(row["ok"] for row in found) else 1)
        found = print_answer(tr, "source_status", as_json=as_json)
        if tr.answer("published_status").rows:
            print_answer(tr, "published_status", as_json=as_json)
        wrong = [r for r in found if r["last_error"] or r["status"] in ("RESYNC_NEEDED", "SCHEMA_CHANGED")]
        raise typer.Exit(1 if wrong else 0)


@contextmanager
def _show_progress(as_json: bool) -> Iterator[Listen]:
    """A bar for each table that is copied, on stderr; none where nobody looks."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from spark_trickle.cli import show

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=show.open_console(stderr=True), transient=True, disable=as_json) as bars:
        tasks: dict[str, Any] = {}
        before: dict[str, int] = {}
        total: dict[str, int] = {}

        def update_bar(step: Any) -> None:
            # Each piece of a copy counts from zero again.
            last = before.get(step.table, 0)
            total[step.table] = total.get(step.table, 0) + step.rows - (last if step.rows > last else 0)
            before[step.table] = step.rows
            expected = step.expected if step.expected > 0 else None
            if step.table not in tasks:
                tasks[step.table] = bars.add_task(step.table, total=expected)
            bars.update(tasks[step.table], completed=total[step.table])

        yield update_bar
