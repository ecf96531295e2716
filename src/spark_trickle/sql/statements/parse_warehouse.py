"""VACUUM, BACKUP WAREHOUSE and ALTER WAREHOUSE texts -> statements."""

from __future__ import annotations

from spark_trickle.model.numbers import read_decimal_number
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.sql.lexer.words import WordKind
from spark_trickle.sql.statements.kinds import BackUp, RenewIdentity, Statement, Vacuum


def parse_vacuum(c: Cursor) -> Statement:
    c.expect("VACUUM")
    table = None if c.done or _is_at_retain(c) or _is_at_dry_run(c) else c.read_name()
    hours = None
    if c.accept("RETAIN"):
        word = c.read_word()
        hours = read_decimal_number(word.text) if word.kind is WordKind.NUMBER else None
        if hours is None:
            c.at -= 1
            c.fail("expected a number of hours")
        if not c.accept("HOURS"):
            c.expect("HOUR")
    return Vacuum(table, hours, c.accept("DRY", "RUN"))


def _is_at_retain(c: Cursor) -> bool:
    return c.peek() == "RETAIN" and c.peek(2) in ("HOURS", "HOUR")


def _is_at_dry_run(c: Cursor) -> bool:
    return c.peek() == "DRY" and c.peek(1) == "RUN"


def parse_backup(c: Cursor) -> Statement:
    c.expect("BACKUP", "WAREHOUSE", "TO")
    return BackUp(c.read_string(), c.accept("WITH", "LINKS"))


def parse_alter(c: Cursor) -> Statement:
    """After ALTER WAREHOUSE."""
    c.expect("RENEW", "IDENTITY")
    return RenewIdentity()
