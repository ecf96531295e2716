"""CREATE, ALTER, DROP and REFRESH STREAM TABLE texts -> statements."""

from __future__ import annotations

from spark_trickle.model.stream import Mode, read_mode
from spark_trickle.model.stream_options import StreamOptions, parse_option_values
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.sql.lexer.words import WordKind
from spark_trickle.sql.statements.kinds import (
    AlterStream,
    CreateStream,
    DropStream,
    ExplainQuery,
    ExplainStream,
    RefreshStream,
    Statement,
    SteerStream,
)


def accept_noun(c: Cursor) -> bool:
    """STREAM TABLE, or the name that others have for it."""
    return c.accept("STREAM", "TABLE") or c.accept("MATERIALIZED", "VIEW")


def parse_create(c: Cursor, swap: bool) -> CreateStream:
    quiet = c.accept("IF", "NOT", "EXISTS")
    name = c.read_name()
    columns = c.read_names_in_brackets() if c.peek() == "(" else ()
    schedule: str | None = None
    mode, options = Mode.AUTO, StreamOptions()
    while not c.accept("AS"):
        if c.peek() == "SCHEDULE" or c.peek() == "CRON":
            schedule = _parse_schedule(c)
        elif c.accept("REFRESH", "MODE"):
            mode = _parse_mode(c)
        elif c.accept("WITH"):
            options = StreamOptions().with_values(parse_option_values(_parse_options(c)))
        else:
            c.fail("expected SCHEDULE, REFRESH MODE, WITH or AS")
    if c.done or c.peek() not in ("SELECT", "WITH", "(", "VALUES", "FROM", "TABLE"):
        c.fail("expected a query", "Write a SELECT here.")
    return CreateStream(name, c.read_rest(), columns, schedule, mode, options, quiet, swap)


def _parse_schedule(c: Cursor) -> str:
    c.accept("SCHEDULE")
    cron = c.accept("CRON")
    if c.done or c.words[c.at].kind is not WordKind.STRING:
        c.fail("expected a schedule in quotes", "Write SCHEDULE '1m', 'calculated', or CRON '*/5 * * * *'.")
    text = c.read_string()
    return f"cron {text}" if cron else text


def _parse_mode(c: Cursor) -> Mode:
    if c.peek() not in list(Mode):
        c.fail(f"expected one of {', '.join(Mode)}")
    return Mode(c.read_word().upper)


def _parse_options(c: Cursor) -> tuple[tuple[str, str], ...]:
    return tuple(pair for text in c.read_brackets() for pair in _parse_pairs(Cursor(text)))


def parse_alter(c: Cursor) -> AlterStream | SteerStream:
    name = c.read_name()
    for word, suspended in (("SUSPEND", True), ("RESUME", False)):
        if c.accept(word):
            return SteerStream(name, suspended)
    if c.accept("AS"):
        return AlterStream(name, query=c.read_rest())
    c.expect("SET")
    if c.peek() in ("SCHEDULE", "CRON"):
        return AlterStream(name, schedule=_parse_schedule(c))
    if c.accept("REFRESH", "MODE"):
        return AlterStream(name, mode=_parse_mode(c))
    pairs = dict(_parse_options(c) if c.peek() == "(" else _parse_pairs(c))
    mode = pairs.pop("refresh_mode", None)
    if mode is not None and mode.upper() not in list(Mode):
        c.fail(f"expected one of {', '.join(Mode)}")
    schedule = pairs.pop("schedule", None)
    changed = parse_option_values(pairs.items())
    return AlterStream(name, None, schedule, read_mode(mode) if mode is not None else None, changed)


def _parse_pairs(c: Cursor) -> tuple[tuple[str, str], ...]:
    """key = value, key = value"""
    found = []
    while True:
        key = c.read_identifier().lower()
        c.expect("=")
        found.append((key, c.read_word().text))
        if not c.accept(","):
            return tuple(found)


def parse_drop(c: Cursor) -> DropStream:
    quiet = c.accept("IF", "EXISTS")
    name = c.read_name()
    cascade = c.accept("CASCADE")
    c.accept("RESTRICT")
    return DropStream(name, quiet, cascade)


def parse_explain(c: Cursor) -> Statement | None:
    """EXPLAIN of a stream table; of anything else it is Spark's."""
    c.expect("EXPLAIN")
    if accept_noun(c):
        return ExplainStream(c.read_name())
    if c.accept("CREATE"):
        swap = c.accept("OR", "REPLACE")
        if accept_noun(c):
            return ExplainQuery(parse_create(c, swap).query)
    return None


def parse_refresh(c: Cursor) -> Statement | None:
    c.expect("REFRESH")
    if not accept_noun(c):
        return None
    return RefreshStream(c.read_name())
