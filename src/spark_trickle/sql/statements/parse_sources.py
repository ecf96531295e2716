"""ATTACH, SYNC, DETACH and PUBLISH texts -> statements."""

from __future__ import annotations

from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.sql.lexer.words import WordKind
from spark_trickle.sql.statements.kinds import (
    AttachSource,
    DetachSource,
    MirrorTable,
    MirrorTables,
    Name,
    PublishStream,
    RepairPublished,
    ResyncTable,
    Statement,
    SyncSource,
    UnpublishStream,
)

_OPTIONS_ADVICE = "Write OPTIONS (dsn 'env:SHOP_DSN', tables 'public.*')."


def attach(c: Cursor) -> Statement:
    c.expect("ATTACH", "SOURCE")
    quiet = c.accept("IF", "NOT", "EXISTS")
    name = c.identifier()
    c.expect("TYPE")
    kind = c.identifier().lower()
    return AttachSource(name, kind, options(c) if c.accept("OPTIONS") else (), quiet)


def options(c: Cursor) -> tuple[tuple[str, str], ...]:
    """( key 'value', key = 'value', … )"""
    c.expect("(")
    found = []
    while True:
        key = c.identifier().lower()
        c.accept("=")
        if c.done or c.words[c.at].kind not in (WordKind.STRING, WordKind.NAME, WordKind.NUMBER):
            c.fail(f'expected a value for "{key}"', _OPTIONS_ADVICE)
        found.append((key, c.next().text))
        if c.accept(")"):
            return tuple(found)
        if not c.accept(","):
            c.fail("expected ) or a comma", _OPTIONS_ADVICE)


def detach(c: Cursor) -> Statement:
    c.expect("DETACH", "SOURCE")
    quiet = c.accept("IF", "EXISTS")
    name = c.identifier()
    cascade = c.accept("CASCADE")
    return DetachSource(name, quiet, cascade, c.accept("FORCE"))


def sync(c: Cursor) -> Statement:
    c.expect("SYNC", "SOURCE")
    return SyncSource(c.identifier(), c.accept("TAKE", "OVER"))


def resync(c: Cursor) -> Statement:
    c.expect("RESYNC", "TABLE")
    return ResyncTable(c.name())


def mirror(c: Cursor, name: Name, quiet: bool) -> MirrorTable:
    """After CREATE TABLE name FROM SOURCE."""
    source = c.name()
    columns = c.names_in_brackets() if c.peek() == "(" else ()
    chosen = options(c) if c.accept("OPTIONS") or c.accept("WITH") else ()
    return MirrorTable(name, source, columns, chosen, quiet)


def alter(c: Cursor) -> MirrorTables:
    """After ALTER SOURCE."""
    source = c.identifier()
    c.expect("ADD", "TABLES")
    patterns = c.string()
    return MirrorTables(source, patterns, c.identifier() if c.accept("INTO") else None)


def publish(c: Cursor) -> Statement:
    c.expect("PUBLISH", "STREAM", "TABLE")
    name = c.name()
    if c.accept("REPAIR"):
        return RepairPublished(name)
    c.expect("TO", "SOURCE")
    source = c.identifier()
    target = c.name() if c.accept("AS") else name[-1:]
    return PublishStream(name, source, target)


def unpublish(c: Cursor) -> Statement:
    c.expect("UNPUBLISH", "STREAM", "TABLE")
    name = c.name()
    if c.accept("DROP", "TABLE"):
        return UnpublishStream(name, keep=False)
    c.accept("KEEP", "TABLE")
    return UnpublishStream(name)
