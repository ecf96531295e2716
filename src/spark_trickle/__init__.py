"""spark-trickle: exact change logs and stream tables for Apache Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_trickle import errors
from spark_trickle.errors import TrickleError
from spark_trickle.model.report import Result

if TYPE_CHECKING:
    from spark_trickle.lake.storage.restore import restore
    from spark_trickle.session import Trickle, connect

__version__ = "0.1.0"
__all__ = ["Result", "Trickle", "TrickleError", "connect", "errors", "restore"]


def __getattr__(name: str) -> Any:
    """Spark takes a second to import, so it is imported when somebody connects."""
    if name in ("Trickle", "connect"):
        from spark_trickle import session

        return getattr(session, name)
    if name == "restore":
        from spark_trickle.lake.storage.restore import restore

        return restore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
