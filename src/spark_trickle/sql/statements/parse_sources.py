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


def parse_attach(c: Cursor) -> Statement:
    c.expect("ATTACH", "SOURCE")
    quiet = c.accept("IF", "NOT", "EXISTS")
    name = c.read_identifier()
    c.expect("TYPE")
    kind = c.read_identifier().lower()
    return AttachSource(name, kind, parse_options(c) if c.accept("OPTIONS") else (), quiet)


def parse_options(c: Cursor) -> tuple[tuple[str, str], ...]:
    """( key 'value', key = 'value', … )"""
    c.expect("(")
    found = []
    while True:
        key = c.read_identifier().lower()
        c.accept("=")
        if c.done or c.words[c.at].kind not in (WordKind.STRING, WordKind.NAME, WordKind.NUMBER):
            c.fail(f'expected a value for "{key}"', _OPTIONS_ADVICE)
        found.append((key, c.read_word().text))
        if c.accept(")"):
            return tuple(found)
        if not c.accept(","):
            c.fail("expected ) or a comma", _OPTIONS_ADVICE)


def parse_detach(c: Cursor) -> Statement:
    c.expect("DETACH", "SOURCE")
    quiet = c.accept("IF", "EXISTS")
    name = c.read_identifier()
    cascade = c.accept("CASCADE")
    return DetachSource(name, quiet, cascade, c.accept("FORCE"))


def parse_sync(c: Cursor) -> Statement:
    c.expect("SYNC", "SOURCE")
    return SyncSource(c.read_identifier(), c.accept("TAKE", "OVER"))


def parse_resync(c: Cursor) -> Statement:
    c.expect("RESYNC", "TABLE")
    return ResyncTable(c.read_name())


def parse_mirror(c: Cursor, name: Name, quiet: bool) -> MirrorTable:
    """After CREATE TABLE name FROM SOURCE."""
    source = c.read_name()
    columns = c.read_names_in_brackets() if c.peek() == "(" else ()
    chosen = parse_options(c) if c.accept("OPTIONS") or c.accept("WITH") else ()
    return MirrorTable(name, source, columns, chosen, quiet)


def parse_alter(c: Cursor) -> MirrorTables:
    """After ALTER SOURCE."""
    source = c.read_identifier()
    c.expect("ADD", "TABLES")
    patterns = c.read_string()
    return MirrorTables(source, patterns, c.read_identifier() if c.accept("INTO") else None)


def parse_publish(c: Cursor) -> Statement:
    c.expect("PUBLISH", "STREAM", "TABLE")
    name = c.read_name()
    if c.accept("REPAIR"):
        return RepairPublished(name)
    c.expect("TO", "SOURCE")
    source = c.read_identifier()
    target = c.read_name() if c.accept("AS") else name[-1:]
    chosen = parse_options(c) if c.accept("OPTIONS") or c.accept("WITH") else ()
    return PublishStream(name, source, target, chosen)


def parse_unpublish(c: Cursor) -> Statement:
    c.expect("UNPUBLISH", "STREAM", "TABLE")
    name = c.read_name()
    if c.accept("DROP", "TABLE"):
        return UnpublishStream(name, keep=False)
    c.accept("KEEP", "TABLE")
    return UnpublishStream(name)
