"""`trickle run`: a scheduler until Ctrl-C or SIGTERM, which says what it does."""

from __future__ import annotations

import json
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from spark_trickle.cli import show
from spark_trickle.cli.stream_commands import report_line
from spark_trickle.lake.catalog.scheduling import Alert
from spark_trickle.model.stream import RefreshReport
from spark_trickle.observe.metrics import Metrics
from spark_trickle.sources.report import SyncReport

if TYPE_CHECKING:
    from spark_trickle.session import Trickle

_WEBHOOK_SECONDS = 5.0


@dataclass(frozen=True)
class Outlets:
    """Where what happens is told, beside the terminal."""

    metrics_port: int | None = None
    metrics_address: str = "127.0.0.1"
    webhook: str | None = None


def serve_warehouse(tr: Trickle, seconds: float | None, outlets: Outlets, as_json: bool) -> None:
    metrics = Metrics(tr.answer)
    scheduler = tr.scheduler(on_alert=_make_alert_listener(as_json, outlets.webhook))
    scheduler.report_listeners += [metrics.observe, lambda report: _say_report(report, as_json)]
    scheduler.sync_listeners += [metrics.observe_sync, lambda report: _say_sync(report, as_json)]
    scheduler.listeners.append(lambda alert: metrics.count_alert(alert.event))
    stop = threading.Event()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
    server = None
    if outlets.metrics_port is not None:
        server = metrics.serve(outlets.metrics_port, outlets.metrics_address)
    where = f", metrics on port {server.port}" if server is not None else ""
    _say_event(f"keeping {tr.catalog_url} fresh{where}; press Ctrl-C to stop", as_json, "started")
    try:
        with scheduler:
            end = None if seconds is None else time.monotonic() + seconds
            while not stop.wait(0.2) and scheduler.running and (end is None or time.monotonic() < end):
                pass
    finally:
        if server is not None:
            server.close()
    if scheduler.failure is not None:
        raise scheduler.failure
    _say_event("stopped", as_json, "stopped")


def _make_alert_listener(as_json: bool, webhook: str | None) -> Callable[[Alert], None]:
    def tell_alert(alert: Alert) -> None:
        value = {
            "event": alert.event,
            "name": alert.table_name,
            "message": alert.message,
            "raised": alert.raised.isoformat(),
        }
        typer.echo(show.to_json(value) if as_json else f"! {alert.event} {alert.table_name}: {alert.message}")
        if webhook is not None:
            _post_alert(webhook, value)

    return tell_alert


def _post_alert(webhook: str, value: dict[str, Any]) -> None:
    """A receiver that does not answer must not stop the refreshes; the alert is in the catalog anyway."""
    request = urllib.request.Request(
        webhook, json.dumps(value).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    try:
        urllib.request.urlopen(request, timeout=_WEBHOOK_SECONDS).close()
    except (urllib.error.URLError, OSError) as error:
        typer.echo(f"! webhook failed: {error}", err=True)


def _say_report(report: RefreshReport, as_json: bool) -> None:
    if as_json:
        typer.echo(show.to_json({"event": "refreshed", **show.to_plain(vars(report))}))
    else:
        typer.echo(report_line(report))


def _say_sync(report: SyncReport, as_json: bool) -> None:
    if not report.tables:
        return
    if as_json:
        typer.echo(show.to_json({"event": "synced", **show.to_plain(vars(report))}))
    else:
        came = f"+{report.rows_inserted} -{report.rows_deleted} in {report.duration_ms:.0f} ms"
        typer.echo(f"{report.source} {report.capture} {came}: {', '.join(report.tables)}")


def _say_event(text: str, as_json: bool, event: str) -> None:
    typer.echo(show.to_json({"event": event, "message": text}) if as_json else text)
