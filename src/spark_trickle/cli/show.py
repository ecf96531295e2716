"""A DataFrame -> its first rows as a table for people or as JSON for programs."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from spark_trickle.errors import TrickleError
from spark_trickle.model.arrow import python_values
from spark_trickle.model.report import COUNTS

if TYPE_CHECKING:
    from spark_trickle.spark.frames import Frame

_AS_TEXT = ("interval", "time(", "variant", "void", "geo")  # types that Spark cannot hand over as Arrow
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_WIDE = 10_000  # without a terminal there is no width to fit into


@dataclass(frozen=True)
class QueryResult:
    """The rows of a statement; `truncated` if there are more than were asked for."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool = False

    @property
    def is_result(self) -> bool:
        """Whether these are the counts of a statement that changes something."""
        return self.columns[: len(COUNTS)] == COUNTS


def fetch_answer(frame: Frame, most: int) -> QueryResult:
    """At most so many rows, 0 for all; what Spark says against them becomes our error."""
    from spark_trickle.spark.run import collect

    types = tuple(f.dataType.simpleString() for f in frame.schema.fields)
    if not types:
        return QueryResult((), (), ())
    # Columns get numbers, because a query may give two of them the same name.
    numbered = frame.toDF(*(f"_{n}" for n in range(len(types))))
    plain = numbered.selectExpr(
        *(f"string(_{n}) AS _{n}" if t.startswith(_AS_TEXT) else f"_{n}" for n, t in enumerate(types))
    )
    found = collect(plain.limit(most + 1) if most else plain)
    rows = tuple(zip(*(python_values(column) for column in found.columns), strict=True))
    kept = rows[:most] if most else rows
    return QueryResult(tuple(frame.columns), types, kept, len(rows) > len(kept))


# --- for people ------------------------------------------------------------------------------------


def open_console(stderr: bool = False) -> Console:
    made = Console(stderr=stderr, highlight=False)
    return made if made.is_terminal else Console(stderr=stderr, highlight=False, width=_WIDE)


def render_answer(out: Console, answer: QueryResult) -> None:
    if answer.is_result:
        out.print(describe_result(answer))
    elif answer.columns:
        out.print(make_table(answer))
        if answer.truncated:
            out.print(Text(f"only the first {len(answer.rows)} rows; --max-rows 0 shows all", style="dim"))


def describe_result(answer: QueryResult) -> str:
    """What a statement did, in one line, and what it warns of."""
    inserted, updated, deleted, snapshot, *told = answer.rows[0]
    counts = {"inserted": inserted, "updated": updated, "deleted": deleted}
    done = ", ".join(f"{n} {word}" for word, n in counts.items() if n)
    warnings = [f"warning: {line}" for text in told for line in text.splitlines()]
    return "\n".join([f"{done or 'done'} (snapshot {snapshot})", *warnings])


def make_table(answer: QueryResult) -> Table:
    made = Table(header_style="bold")
    for name, kind in zip(answer.columns, answer.types, strict=True):
        made.add_column(Text(name), justify="right" if kind.startswith(_NUMBERS) else "left", overflow="fold")
    for row in answer.rows:
        made.add_row(*(_make_cell(value) for value in row))
    return made


def _make_cell(value: Any) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    return Text(value if isinstance(value, str) else _format_value(to_plain(value)))


def _format_value(value: Any) -> str:
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else str(value)


def report_error(out: Console, error: TrickleError) -> None:
    out.print(Text(f"error [{error.code}]: {error.message}", style="red"))
    for note in list_notes(error):
        out.print(Text(note))
    out.print(Text(f"hint: {error.hint}"))


def list_notes(error: TrickleError) -> list[str]:
    """What was added on the way: which statement of a script it was."""
    return getattr(error, "__notes__", [])


# --- for programs ----------------------------------------------------------------------------------


def answer_json(answer: QueryResult) -> str:
    columns = [{"name": n, "type": t} for n, t in zip(answer.columns, answer.types, strict=True)]
    rows = [[to_plain(value) for value in row] for row in answer.rows]
    return to_json({"columns": columns, "rows": rows, "truncated": answer.truncated})


def error_json(error: TrickleError) -> str:
    return to_json(
        {
            "error": {
                "code": error.code,
                "kind": error.kind.name.lower(),
                "message": error.message,
                "hint": error.hint,
                "retryable": error.retryable,
                "notes": list_notes(error),
            }
        }
    )


def to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def to_plain(value: Any) -> Any:
    """A value in the words of JSON, without loss: what has no such word becomes text."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case Decimal():
            return format(value, "f")
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            return value.hex()
        case dict():
            return {str(k): to_plain(v) for k, v in value.items()}
        case list() | tuple():
            return [to_plain(v) for v in value]
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)
