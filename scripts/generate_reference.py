"""The tables in the code -> the pages under docs/reference, and the list of decisions.

Run it after changing what they describe:

    make docs

A test fails when a page is not what this script writes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields
from itertools import count
from pathlib import Path
from typing import Any, get_args

from reference_columns import COLUMNS
from reference_commands import commands_page
from reference_decisions import decisions_page
from reference_formats import formats_page
from reference_metrics import metrics_page
from reference_options import options_page
from reference_python import python_page
from reference_statements import SECTIONS, SHAPES
from reference_text import code, table
from reference_versions import versions_page

from spark_trickle import errors
from spark_trickle.errors import Kind, TrickleError
from spark_trickle.lake.catalog.ducklake import type_name
from spark_trickle.model import types
from spark_trickle.model.arrow import can_hold
from spark_trickle.observe import functions as standing
from spark_trickle.refresh import functions as streams
from spark_trickle.settings import PROFILES, Settings
from spark_trickle.sql.statements.kinds import Statement
from spark_trickle.sql.support import FEATURES
from spark_trickle.txn import functions

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
NOTICE = "<!-- Written by scripts/generate_reference.py from the code; do not edit. -->"


def pages() -> dict[str, str]:
    """File name -> content."""
    made = {
        "settings.md": settings_page(),
        "errors.md": errors_page(),
        "statements.md": statements_page(),
        "supported-sql.md": support_page(),
        "table-functions.md": functions_page(),
        "types.md": types_page(),
        "options.md": options_page(),
        "python.md": python_page(),
        "commands.md": commands_page(),
        "metrics.md": metrics_page(),
        "versions.md": versions_page(),
        "formats.md": formats_page(),
        "../decisions/README.md": decisions_page(),
    }
    return {name: f"{NOTICE}\n\n{text.strip()}\n" for name, text in made.items()}


# --- settings --------------------------------------------------------------------------------------


def settings_page() -> str:
    names = sorted({name for values in PROFILES.values() for name in values})
    defaults = Settings().as_dict()
    profiles = [
        [code(n), str(defaults[n]), *(str(p[n]) if n in p else "" for p in PROFILES.values())] for n in names
    ]
    rows = [
        [f"`{f.name}`", f"`{_shown(f.default)}`", f.type, _bounds(f), f.metadata["meaning"]]
        for f in fields(Settings)
    ]
    return f"""
# Settings

Pass them to `connect(…, settings={{"name": value}})` or `trickle sql --set name=value`, or change them on an
open connection with `SET trickle.name = value`. `SHOW SETTINGS` lists them, `SHOW trickle.name` shows one.
They belong to the connection and are not stored in the catalog. Settings for every connection go
into `trickle.toml` in the folder of the warehouse, or into the environment as `TRICKLE_NAME`; see
[running](../guide/running.md#settings).

{table(["name", "default", "type", "bounds", "meaning"], rows)}

## Profiles

`profile = "name"` stands for several settings; settings that are given as well take precedence.

{table(["setting", "default", *(code(p) for p in PROFILES)], profiles)}
"""


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bounds(f: Any) -> str:
    if not isinstance(f.default, int | float) or isinstance(f.default, bool):
        return ""
    low, high = f.metadata["low"], f.metadata["high"]
    return f"{low} to {high}"


# --- errors ----------------------------------------------------------------------------------------

_KINDS = {
    Kind.USER: "The statement or its data must change.",
    Kind.UNSUPPORTED: "It cannot be done this way; the hint names another way.",
    Kind.TRANSIENT: "Another process was in the way; run it again. Only these errors are `.retryable`.",
    Kind.ENVIRONMENT: "The machine, disk or catalog needs attention.",
    Kind.BUG: "A bug in spark-trickle; please report it.",
}


def errors_page() -> str:
    kinds = [[f"`{k.name}`", str(k.value), _KINDS[k]] for k in Kind]
    rows = []
    for cls in sorted(_list_errors(TrickleError), key=lambda c: (c.kind.value, c.code)):
        message, hint = _words_of(cls)
        rows.append([f"`{cls.code}`", f"`{cls.__name__}`", cls.kind.name, message, hint])
    return f"""
# Errors

Every error is a subclass of `spark_trickle.errors.TrickleError` with `.message`, `.hint`, `.code`, `.kind`
and `.retryable`. The kind says who has to act; its number is the exit code of `trickle`.

{table(["kind", "exit code", "meaning"], kinds)}

Below, … stands for the details of an error.

{table(["code", "class", "kind", "message", "hint"], rows)}
"""


def _list_errors(base: type[TrickleError]) -> list[type[TrickleError]]:
    """Those that are raised; the others are bases of them."""
    return [c for each in base.__subclasses__() for c in (_list_errors(each) or [each])]


def _words_of(cls: type[TrickleError]) -> tuple[str, str]:
    """Message and hint of an error in which every field is …"""
    stand_ins: dict[str, Any] = {"str": "…", "int": 0, "float": 0.0, "tuple[str, ...]": ("…",)}
    given = [f for f in fields(cls) if f.default is MISSING or f.default == ()]
    error = cls(**{f.name: stand_ins[str(f.type)] for f in given})
    numbers = any(f.type in ("int", "float") for f in given)
    return tuple(t.replace("0", "…") if numbers else t for t in (error.message, error.hint))


# --- statements ------------------------------------------------------------------------------------


def statements_page() -> str:
    if missing := set(get_args(Statement)) ^ {shape.kind for shape in SHAPES}:
        raise SystemExit(f"reference_statements.py and spark_trickle.sql.statements.kinds differ: {missing}")
    body = ""
    for title, shapes in SECTIONS.items():
        body += f"\n## {title}\n"
        for shape in shapes:
            body += f"\n```text\n{shape.syntax}\n```\n\n{shape.meaning} Example: `{shape.example}`\n"
    return f"""
# Statements

`tr.sql(statement)` runs one of these. Definitions and changes return one row: `rows_inserted`,
`rows_updated`, `rows_deleted` and `snapshot`. Each is a commit of its own, unless a transaction is open.
INSERT, UPDATE, DELETE and MERGE may begin with `WITH name AS (query)`.

`[…]` is optional, and `{{a | b}}` is a choice. A test parses every example.
{body}"""


# --- table functions -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Function:
    call: str
    meaning: str
    columns: tuple[tuple[str, str], ...]


FUNCTIONS = {
    "changes": Function(
        "trickle.changes('t', after [, upto])",
        "What changed in a table after one snapshot, up to and including another (the newest if left out). "
        "The columns of the table come first.",
        (
            ("_change_type", "insert, delete, update_preimage or update_postimage"),
            ("_commit_version", "the snapshot that made the change"),
            ("_commit_timestamp", "when it was committed"),
        ),
    ),
    "snapshots": Function(
        "trickle.snapshots()",
        "The history of the warehouse.",
        (
            ("snapshot_id", "counted from 0; every commit takes the next number"),
            ("snapshot_time", "when it was committed; grows with the id"),
            ("schema_version", "grows when a definition changes"),
            ("changes", "what was done, in the notation of DuckLake"),
            ("message", "the first words of the statement"),
        ),
    ),
    "tables": Function(
        "trickle.tables()",
        "The tables that exist now.",
        (
            ("schema_name", "the schema"),
            ("table_name", "the table"),
            ("table_id", "stays the same when the table is renamed"),
            ("primary_key", "the columns of the key, or NULL"),
            ("row_count", "rows in the table"),
            ("file_count", "files that add up to it"),
            ("total_bytes", "their size"),
        ),
    ),
    "files": Function(
        "trickle.files('t')",
        "The files that add up to the table now, in the order of its log.",
        (
            ("file", "the path"),
            ("role", "change (of one commit), base (consolidated) or net (several changes as one)"),
            ("row_count", "rows in the file, inserted and deleted"),
            ("deleted_rows", "how many of them have weight −1"),
            ("size_bytes", "its size"),
            ("begin_snapshot", "the snapshot that added it"),
        ),
    ),
}


def functions_page() -> str:
    if missing := set(FUNCTIONS) ^ set(functions._FUNCTIONS):
        raise SystemExit(f"FUNCTIONS and spark_trickle.txn.functions differ: {missing}")
    parts = []
    for function in FUNCTIONS.values():
        columns = [[f"`{name}`", meaning] for name, meaning in function.columns]
        parts.append(f"## `{function.call}`\n\n{function.meaning}\n\n{table(['column', 'meaning'], columns)}")
    return """
# Table functions

Use them in the FROM clause of any query; they can be joined, filtered and given an alias like a table.
Their arguments are constants: a name in quotes, or the number of a snapshot.

""" + "\n\n".join([*parts, _streams_part(), _standing_part()])


STREAMS = {
    "audit": (
        "trickle.audit('s')",
        "The rows that differ from the query at its snapshot; none if it is exact. Spark runs the query, "
        "or the plan computes all rows if Spark cannot.",
    ),
    "explain_query_rewrite": (
        "trickle.explain_query_rewrite('SELECT …')",
        "What each pass makes of a query, from its text to the SQL of its change.",
    ),
    "explain_refresh_mode": ("trickle.explain_refresh_mode('s')", "What a refresh would do now, and why."),
    "explain_stream_table": (
        "trickle.explain_stream_table('s')",
        "Operators, inner tables, strategies, costs, the delta programs, and what the next refresh would "
        "run.",
    ),
    "stream_tables": ("trickle.stream_tables()", "All stream tables with their queries."),
    "validate_query": ("trickle.validate_query('SELECT …')", "Whether a query can be a stream table."),
}


def _streams_part() -> str:
    if missing := set(STREAMS) ^ set(streams.FUNCTIONS):
        raise SystemExit(f"STREAMS and spark_trickle.refresh.functions differ: {missing}")
    rows = [[code(call), meaning, COLUMNS[name]] for name, (call, meaning) in STREAMS.items()]
    return f"## What stream tables do\n\n{table(['function', 'returns', 'columns'], rows)}"


def _standing_part() -> str:
    rows = []
    for name, function in standing.ANSWERS.items():
        words = [w for w in (inspect.getdoc(function.answer) or "").splitlines() if w]
        if not words:
            raise SystemExit(f"trickle.{name} has no docstring")
        given = [p for p in inspect.signature(function.answer).parameters if p != "work"]
        optional = len(given) - function.least
        shown = ", ".join(given[: len(given) - optional] + [f"[{p}]" for p in given[function.least :]])
        rows.append([code(f"trickle.{name}({shown})"), words[0], COLUMNS[name]])
    return f"""## Status and diagnosis

The command line and `tr.answer(name, …)` return the same rows without a query.

{table(["function", "returns", "columns"], rows)}"""


# --- supported SQL -----------------------------------------------------------------------------------


def support_page() -> str:
    rows = [[f.name, f.state.value, f"`{f.example}`", f.note] for f in FEATURES]
    return f"""
# Supported SQL

*Incremental* means that a refresh computes what changed, or what it touches; *in full*, that it computes
everything. Everything else is refused with a reason; *never* marks what makes no sense in a stored
result. `trickle.validate_query` says what a refresh of a query costs. The examples read `t(k INT, v INT)` and
`u(k INT, w INT)`, and a test binds each of them.

{table(["SQL", "state", "example", "note"], rows)}"""


# --- types -----------------------------------------------------------------------------------------

# A Spark type of each kind, in the form that Spark's JSON schemas have.
_ARRAY = {"type": "array", "elementType": "integer", "containsNull": True}
_STRUCT = {
    "type": "struct",
    "fields": [{"name": "a", "type": "integer", "nullable": True, "metadata": {}}],
}
SAMPLES: tuple[Any, ...] = (
    "byte", "short", "integer", "long", "float", "double", "decimal(38,18)", "string", "varchar(10)",
    "char(3)", "binary", "boolean", "date", "timestamp", "timestamp_ntz", "time(6)",
    "interval day to second", "interval year to month", _ARRAY, _STRUCT,
)  # fmt: skip
REFUSED = {
    "map": {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": True},
    "variant": "variant",
    "void": "void",
    "interval": "interval",
    "collated": "string collate UNICODE",
}


def types_page() -> str:
    if missing := set(REFUSED) ^ set(types._REFUSED):
        raise SystemExit(f"REFUSED and spark_trickle.model.types differ: {missing}")
    kinds = [types.from_spark("x", spec, count(1)) for spec in SAMPLES]
    held = [
        [code(types.sql_name(k)), code(type_name(k)), _key(k), _small(k), _wider(k, kinds)] for k in kinds
    ]
    refused = [[f"`{_refused_name(spec)}`", _advice(spec)] for spec in REFUSED.values()]
    return f"""
# Types

The types that a column can have. The last column lists what `ALTER TABLE … ALTER COLUMN … TYPE` accepts; in
addition, a DECIMAL may get more digits before and after the point, and a VARCHAR or CHAR a greater length.

{table(["Spark", "DuckLake", "in a key", "small changes go through Arrow", "can become"], held)}

Arrays and structs may be nested. `TIME` needs `spark.sql.timeType.enabled`, which is on in a session that
`connect()` starts. The query of a stream table
compares a `CHAR` with the blanks that pad it, where Spark would ignore them: write `c = 'x  '`, or use
`VARCHAR`. `TIME` and intervals are always written by Spark; in Parquet, and so for DuckDB, an
interval is a plain integer: months, or microseconds.

A value is stored by the rules of ANSI store assignment: numbers can be stored as numbers, dates as timestamps
and timestamps as dates, and anything but binary as text. Text cannot be stored as a number: write a CAST. A
number that does not fit is an error.

## Refused

Values of these types cannot be compared, so a deleted row could not be matched with the inserted one.

{table(["type", "instead"], refused)}
"""


def _key(kind: types.ColumnType) -> str:
    return "yes" if isinstance(kind, types.Scalar) else "no"


def _small(kind: types.ColumnType) -> str:
    return "yes" if can_hold(kind) else "no"


def _wider(kind: types.ColumnType, kinds: list[types.ColumnType]) -> str:
    return ", ".join(f"`{types.sql_name(k)}`" for k in kinds if k != kind and types.can_widen(kind, k))


def _advice(spec: Any) -> str:
    try:
        types.from_spark("x", spec, count(1))
    except errors.TypeNotAllowedError as error:
        return error.hint
    raise SystemExit(f"{spec} is not refused")


def _refused_name(spec: Any) -> str:
    return spec.upper() if isinstance(spec, str) else str(spec["type"]).upper()


# --- writing ---------------------------------------------------------------------------------------


def stale() -> Iterator[str]:
    """Pages that are missing or not what the code says now."""
    for name, text in pages().items():
        file = FOLDER / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            yield name


def main(say: Callable[[str], None] = print) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        say(f"docs/reference/{name}")


if __name__ == "__main__":
    main()
