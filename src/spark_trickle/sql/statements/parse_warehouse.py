"""VACUUM, BACKUP WAREHOUSE and ALTER WAREHOUSE texts -> statements."""

from __future__ import annotations

from math import isfinite

from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.sql.lexer.words import WordKind
from spark_trickle.sql.statements.kinds import BackUp, RenewIdentity, Statement, Vacuum


def vacuum(c: Cursor) -> Statement:
    c.expect("VACUUM")
    table = None if c.done or _at_retain(c) or _at_dry_run(c) else c.name()
    hours = None
    if c.accept("RETAIN"):
        word = c.next()
        if word.kind is not WordKind.NUMBER or not isfinite(hours := float(word.text)):
            c.at -= 1
            c.fail("expected a number of hours")
        if not c.accept("HOURS"):
            c.expect("HOUR")
    return Vacuum(table, hours, c.accept("DRY", "RUN"))


def _at_retain(c: Cursor) -> bool:
    return c.peek() == "RETAIN" and c.peek(2) in ("HOURS", "HOUR")


def _at_dry_run(c: Cursor) -> bool:
    return c.peek() == "DRY" and c.peek(1) == "RUN"


def back_up(c: Cursor) -> Statement:
    c.expect("BACKUP", "WAREHOUSE", "TO")
    return BackUp(c.string(), c.accept("WITH", "LINKS"))


def alter(c: Cursor) -> Statement:
    """After ALTER WAREHOUSE."""
    c.expect("RENEW", "IDENTITY")
    return RenewIdentity()
