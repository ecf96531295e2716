"""Commands for whole warehouses: they need no Spark, and answer at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spark_trickle.cli.stream_commands import AsJson, DataPath, Warehouse, print_rows, print_value

if TYPE_CHECKING:
    from spark_trickle.lake.storage.backup import Listen
    from spark_trickle.lake.warehouse import Warehouse as OpenWarehouse

Backups = Annotated[str, typer.Argument(help="The folder that holds the backups.")]
Link = Annotated[
    bool, typer.Option("--link", help="Link files instead of copying them; for backups on the same disk.")
]
_TIMEOUT = 60.0
_LEASE = timedelta(minutes=30)


def register_commands(app: typer.Typer) -> None:
    for command in (backup, backups, restore, verify, adopt):
        app.command()(command)


def backup(
    warehouse: Warehouse,
    folder: Backups,
    link: Link = False,
    keep: Annotated[
        int | None, typer.Option(min=1, help="Delete all but this many of the newest backups.")
    ] = None,
    data_path: DataPath = None,
    as_json: AsJson = False,
) -> None:
    """Copy a warehouse as it is now to a folder of backups; only new files are copied."""
    from spark_trickle.lake.catalog.lease import SessionLease
    from spark_trickle.lake.storage.backup import back_up

    with _open_warehouse(warehouse, data_path) as found, _show_progress("backup", as_json) as listen:
        lease = SessionLease(found.engine, found.storage.session_id, _LEASE, found.read_only)
        try:
            done = back_up(found, lease, folder, datetime.now(UTC), link, keep, listen)
        finally:
            lease.end()
    print_value(vars(done), as_json)


def backups(folder: Backups, as_json: AsJson = False) -> None:
    """List the backups in a folder, the oldest first."""
    from spark_trickle.lake.storage.backup import list_backups

    rows = [
        (b.name, b.snapshot, len(b.files), sum(f.bytes for f in b.files.values()), b.warehouse)
        for b in list_backups(Path(folder))
    ]
    print_rows(("name", "snapshot", "files", "bytes", "warehouse"), rows, as_json)


def restore(
    folder: Backups,
    warehouse: Warehouse,
    name: Annotated[str | None, typer.Option(help="The backup to restore; by default the newest.")] = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Replace an existing warehouse; its catalog is kept beside the new one."
        ),
    ] = False,
    link: Link = False,
    data_path: DataPath = None,
    as_json: AsJson = False,
) -> None:
    """Restore a warehouse from a backup, and verify checksums."""
    from spark_trickle.lake.storage.restore import restore as bring_back

    with _show_progress("restore", as_json) as listen:
        done = bring_back(folder, warehouse, data_path, name, replace, link, listen)
    print_value({"name": done.name, "snapshot": done.snapshot, "files": len(done.files)}, as_json)


def verify(warehouse: Warehouse, data_path: DataPath = None, as_json: AsJson = False) -> None:
    """Read every data file and compare it with the catalog; the exit code is 5 if one is damaged."""
    from spark_trickle.lake.storage.verify import verify_files as check_files

    with _open_warehouse(warehouse, data_path) as found:
        findings = check_files(found, datetime.now(UTC))
    columns = ("severity", "table_name", "path", "detail")
    print_rows(columns, [(f.severity, f.table, f.path, f.detail) for f in findings], as_json)
    if any(f.severity == "error" for f in findings):
        raise typer.Exit(5)


def adopt(
    warehouse: Warehouse,
    new_identity: Annotated[
        bool, typer.Option("--new-identity", help="The warehouse is a copy, and the original stays in use.")
    ] = False,
    data_path: DataPath = None,
    as_json: AsJson = False,
) -> None:
    """Connect a catalog to a data folder after a restore, a move or a copy.

    Nothing is deleted: files that the catalog does not know stay where they are.
    """
    from spark_trickle.lake.catalog.engine import open_writer
    from spark_trickle.lake.catalog.identity import renew_identity

    with _open_warehouse(warehouse, data_path, adopt=True) as found:
        identity = found.folder.warehouse
        if new_identity:
            with open_writer(found.engine) as connection:
                identity = renew_identity(connection, found.folder.marker)
        print_value({"warehouse": identity, "data": found.storage.root}, as_json)


@contextmanager
def _open_warehouse(warehouse: str, data_path: str | None, adopt: bool = False) -> Iterator[OpenWarehouse]:
    from spark_trickle.lake.warehouse import open_warehouse

    found = open_warehouse(warehouse, data_path, _TIMEOUT, adopt)
    try:
        yield found
    finally:
        found.engine.dispose()


@contextmanager
def _show_progress(task: str, as_json: bool) -> Iterator[Listen]:
    """A bar on stderr; none where nobody looks."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from spark_trickle.cli import show

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=show.open_console(stderr=True), transient=True, disable=as_json) as bars:
        bar = bars.add_task(task, total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)
