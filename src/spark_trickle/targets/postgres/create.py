"""A target -> its table and its entry in the ledger, made or removed together."""

from __future__ import annotations

from psycopg import sql

from spark_trickle.errors import TargetChangedError, TargetExistsError
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.targets.postgres.ledger import (
    add_entry,
    find_entry,
    find_relation,
    is_ours,
    lock_entry,
    name_ledger,
    note_site,
    prepare_ledger,
    prepare_schema,
    refuse_copy,
    remove_entry,
    require_entry,
)
from spark_trickle.targets.postgres.run import begin_change, execute_statement, read_value
from spark_trickle.targets.postgres.status import compare_table
from spark_trickle.targets.postgres.target import COMMA, Target, compose_hash, pg_type

_CREATE_LOCK = 5_117_430_862_916
_NULLS_NOT_DISTINCT = 150_000  # the first version that can call two NULLs the same key


def create_target(connection: Connection, target: Target, lock_seconds: float = 30.0) -> None:
    """Make the table, empty and at no snapshot; doing it again changes nothing.

    A table of this name that is not ours stays as it is, and so does one that another stream table fills.
    """
    with begin_change(connection, target.full_name, lock_seconds):
        _take_turns(connection)
        prepare_ledger(connection, target.ledger)
        entry = find_entry(connection, target, lock=True)
        if entry and not is_ours(entry, target):
            raise TargetExistsError(target.full_name, f'the stream table "{entry.stream}" is published there')
        if entry and entry.site not in (None, target.site):
            refuse_copy(target, entry.site)
        found = find_relation(connection, target.schema, target.name)
        if found is None:
            _build_table(connection, target)
        elif entry is None or entry.relation != found:
            _go_on_with_kept(connection, target, found)
        elif changed := compare_table(connection, target, entry).changes:
            raise TargetChangedError(target.full_name, changed)


def drop_target(
    connection: Connection, target: Target, keep: bool = False, lock_seconds: float = 30.0
) -> None:
    """Forget a published table; with `keep` the table stays as it is, and can be published again.

    A table that was dropped and made anew by somebody else is not touched.
    """
    with begin_change(connection, target.full_name, lock_seconds):
        _take_turns(connection)
        entry = lock_entry(connection, target)
        found = find_relation(connection, target.schema, target.name)
        if found == entry.relation and not keep:
            execute_statement(connection, sql.SQL("DROP TABLE {}").format(target.sql))
        elif found == entry.relation and _read_comment(connection, found) is None:  # one of others stays
            comment = sql.SQL("COMMENT ON TABLE {} IS {}")
            execute_statement(connection, comment.format(target.sql, sql.Literal(_compose_kept_mark(target))))
        remove_entry(connection, target)
        ledger = name_ledger(target.ledger)
        if not read_value(connection, sql.SQL("SELECT EXISTS (SELECT FROM {})").format(ledger)):
            execute_statement(connection, sql.SQL("DROP TABLE {}").format(ledger))


def adopt_target(connection: Connection, target: Target, lock_seconds: float = 30.0) -> None:
    """Let the warehouse at the site of the target write the table from now on, and no other copy of it."""
    with begin_change(connection, target.full_name, lock_seconds):
        _take_turns(connection)
        require_entry(connection, target, lock=True)
        note_site(connection, target)


def _compose_kept_mark(target: Target) -> str:
    """What we leave on a table that is published no more; with another key it would need other indexes."""
    return f"UNPUBLISH kept this table; its key is ({', '.join(target.key)})"


def _read_comment(connection: Connection, relation: int) -> str | None:
    found = read_value(connection, sql.SQL("SELECT obj_description({}, 'pg_class')").format(relation))
    return None if found is None else str(found)


def _go_on_with_kept(connection: Connection, target: Target, relation: int) -> None:
    """Publish again what was unpublished and kept: its rows are compared, and readers see no gap."""
    if _read_comment(connection, relation) != _compose_kept_mark(target):
        raise TargetExistsError(target.full_name, "spark-trickle did not create it")
    add_entry(connection, target, relation)
    if changed := compare_table(connection, target, require_entry(connection, target)).changes:
        raise TargetChangedError(target.full_name, changed)
    execute_statement(connection, sql.SQL("COMMENT ON TABLE {} IS NULL").format(target.sql))


def _take_turns(connection: Connection) -> None:
    """The first one makes the ledger, the last one removes it."""
    execute_statement(connection, sql.SQL("SELECT pg_advisory_xact_lock({})").format(_CREATE_LOCK))


def _build_table(connection: Connection, target: Target) -> None:
    prepare_schema(connection, target.schema)
    execute_statement(connection, _compose_table(target))
    for statement in _compose_indexes(target, connection.info.server_version):
        execute_statement(connection, statement)
    relation = find_relation(connection, target.schema, target.name)
    assert relation is not None
    add_entry(connection, target, relation)


def _compose_table(target: Target) -> sql.Composed:
    columns = [
        sql.SQL("{} {}").format(sql.Identifier(c.name), sql.SQL(pg_type(c.type))) for c in target.columns
    ]
    if target.key_is_primary:
        columns.append(sql.SQL("PRIMARY KEY ({})").format(_compose_key(target)))
    return sql.SQL("CREATE TABLE {} ({})").format(target.sql, COMMA.join(columns))


def _compose_indexes(target: Target, version: int) -> list[sql.Composed]:
    """Where no primary key finds a row, a hash of it does; a key that may be null is unique all the same."""
    if target.key_is_primary:
        return []
    find = sql.SQL("CREATE INDEX ON {} (({}))").format(target.sql, compose_hash(target))
    unique = sql.SQL("CREATE UNIQUE INDEX ON {} ({}) NULLS NOT DISTINCT").format(
        target.sql, _compose_key(target)
    )
    return [find, unique] if target.key and version >= _NULLS_NOT_DISTINCT else [find]


def _compose_key(target: Target) -> sql.Composed:
    return COMMA.join(map(sql.Identifier, target.key))
