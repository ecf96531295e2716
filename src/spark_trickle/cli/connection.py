"""A warehouse opened for one command: Spark starts without its log messages, and ends with the process."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from spark_trickle.session import Trickle


@contextmanager
def open_connection(
    warehouse: str | os.PathLike[str],
    settings: Mapping[str, str] | None = None,
    data_path: str | None = None,
    verbose: bool = False,
) -> Iterator[Trickle]:
    from spark_trickle.session import connect  # Spark takes a second to import

    with _restore_interrupt(), _keep_stderr_aside(verbose):
        connection = connect(warehouse, settings=settings, data_path=data_path)
    with connection:
        yield connection


@contextmanager
def _restore_interrupt() -> Iterator[None]:
    """Ctrl-C ends the command at once; PySpark would first wait for Spark to stop its jobs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _keep_stderr_aside(verbose: bool) -> Iterator[None]:
    """What Java writes to stderr goes to a file without a name; it is shown only if the start fails.

    Java inherits stderr when it starts, so this holds for as long as it runs. Errors of statements
    do not come this way: PySpark raises them.
    """
    if verbose:
        yield
        return
    if not logging.root.handlers:
        # Py4J logs to the root logger what it raises as well, such as the traceback of an interrupt.
        logging.root.addHandler(logging.NullHandler())
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        except Exception:
            os.dup2(stderr, 2)
            _show_log(log)
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def _show_log(log: BinaryIO) -> None:
    log.seek(0)
    with suppress(AttributeError, OSError):  # stderr may be no file when something captures it
        shutil.copyfileobj(log, sys.stderr.buffer)
        sys.stderr.flush()
