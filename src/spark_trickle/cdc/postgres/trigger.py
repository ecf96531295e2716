"""A capture -> the statements that make triggers write every change into its buffer, and that undo this.

The buffer holds D rows (a row went) and I rows (a row came); an UPDATE is both, all D before all I.
`changed_cols` has a bit for each captured column, the same in both halves of an UPDATE, and is NULL for a
row that was really inserted or deleted.

The functions run with the rights of our role (SECURITY DEFINER, fixed search_path): the application needs no
rights on the buffers. Our role needs SELECT and TRIGGER on the tables, see rights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from psycopg import sql

from spark_trickle.cdc.postgres.capture import Capture
from spark_trickle.cdc.postgres.discover import SourceColumn
from spark_trickle.cdc.postgres.run import Statement

_OLD, _NEW = sql.Identifier("trickle_old"), sql.Identifier("trickle_new")
_COMMA = sql.SQL(", ")
_CHUNK = 32  # bits that an integer holds
EVENTS = ("insert", "update", "delete", "row", "truncate")


# --- the buffer ----------------------------------------------------------------------------------


def buffer_statements(capture: Capture) -> list[Statement]:
    """The buffer has no index: it holds what is still to be read, and writing must be cheap."""
    create = sql.SQL(
        "CREATE {unlogged} TABLE IF NOT EXISTS {buffer} ("
        "change_id int8 NOT NULL GENERATED ALWAYS AS IDENTITY (CACHE 1), "
        "xid xid8 NOT NULL DEFAULT pg_current_xact_id(), "
        "action \"char\" NOT NULL CHECK (action IN ('I', 'D')), "
        "changed_cols varbit)"
    )
    columns = _COMMA.join(
        sql.SQL("ADD COLUMN IF NOT EXISTS {} {}").format(sql.Identifier(name), _stored_type(column))
        for column, name in zip(capture.columns, capture.buffer_names, strict=True)
    )
    return [
        create.format(unlogged=sql.SQL("UNLOGGED" if capture.unlogged else ""), buffer=capture.buffer),
        sql.SQL("ALTER TABLE {} {}").format(capture.buffer, columns),
    ]


def _stored_type(column: SourceColumn) -> sql.SQL:
    """Type and collation as the server itself wrote them, quoted where they have to be.

    A domain would only check again what it has checked already. The order of texts must be that of the table,
    because ranges of keys are read from both.
    """
    collate = f" COLLATE {column.collation}" if column.collation else ""
    return sql.SQL(f"{column.type.plain.shown}{collate}")


# --- the functions -------------------------------------------------------------------------------


def function_statements(capture: Capture) -> list[Statement]:
    return [s for event in capture.events for s in _function(capture, event, _BODIES[event](capture))]


def _function(capture: Capture, event: str, body: sql.Composed) -> Iterator[Statement]:
    text = sql.SQL(
        "#variable_conflict use_column\nDECLARE changed varbit;\nBEGIN\n{body}\nRETURN NULL;{guard}\nEND"
    ).format(body=body, guard=_guard(capture) if capture.guarded else sql.SQL(""))
    name = capture.function(event)
    yield sql.SQL(
        "CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER "
        "SET search_path = pg_catalog, pg_temp SET row_security = off AS {text}"
    ).format(name=name, text=sql.Literal(text.as_string(None)))
    yield sql.SQL("REVOKE ALL ON FUNCTION {name}() FROM PUBLIC").format(name=name)


def _guard(capture: Capture) -> sql.Composed:
    # A conflict between transactions has to reach the application: it is asked to try again.
    return sql.SQL(
        "\nEXCEPTION WHEN transaction_rollback THEN RAISE; WHEN OTHERS THEN\n"
        "INSERT INTO {losses} (source, reason) VALUES ({source}, SQLERRM);\nRETURN NULL;"
    ).format(losses=capture.losses, source=capture.source.oid)


def _insert_body(capture: Capture) -> sql.Composed:
    return _insert_from(capture, "I", _NEW)


def _delete_body(capture: Capture) -> sql.Composed:
    return _insert_from(capture, "D", _OLD)


def _insert_from(capture: Capture, action: str, rows: sql.Identifier) -> sql.Composed:
    return sql.SQL(
        "INSERT INTO {buffer} (action, {names}) SELECT {action}, {values} FROM {rows} AS r;"
    ).format(
        buffer=capture.buffer,
        names=_names(capture),
        action=sql.Literal(action),
        values=_fields("r", capture.columns),
        rows=rows,
    )


def _update_body(capture: Capture) -> sql.Composed:
    """Old and new rows come in the same order, so their place pairs them, also when the key changes.

    Only `changed_cols` rests on the pairing; all old rows go and all new ones come whatever it says. Rows in
    which no captured column changed are not written.
    """
    places = range(len(capture.columns))
    old, new = (_COMMA.join(sql.Identifier(f"{half}{n}") for n in places) for half in "on")
    return sql.SQL("""
        INSERT INTO {buffer} (action, changed_cols, {names})
        WITH pairs AS MATERIALIZED (
            SELECT {bits} AS bits, o.place AS o, n.place AS n, {old}, {new}
            FROM (SELECT row_number() OVER () AS place, {old_fields} FROM {old_rows} AS r) AS o
                FULL JOIN (SELECT row_number() OVER () AS place, {new_fields} FROM {new_rows} AS r) AS n
                ON o.place = n.place)
        -- D before I, so that the last row of a key by change_id is its newest
        SELECT 'D', p.bits, {old} FROM pairs AS p WHERE p.o IS NOT NULL AND (p.bits <> {none} OR p.n IS NULL)
        UNION ALL
        SELECT 'I', p.bits, {new} FROM pairs AS p WHERE p.n IS NOT NULL AND (p.bits <> {none} OR p.o IS NULL);
    """).format(
        buffer=capture.buffer,
        names=_names(capture),
        bits=_bits(capture.columns, [(f'"o{n}"', f'"n{n}"') for n in places]),
        old=old,
        new=new,
        old_fields=_renamed_fields(capture.columns, "o"),
        new_fields=_renamed_fields(capture.columns, "n"),
        old_rows=_OLD,
        new_rows=_NEW,
        none=_no_bits(capture),
    )


def _row_body(capture: Capture) -> sql.Composed:
    pairs = [(_field("OLD", c), _field("NEW", c)) for c in capture.columns]
    return sql.SQL("""
        IF TG_OP = 'INSERT' THEN
            INSERT INTO {buffer} (action, {names}) VALUES ('I', {new});
        ELSIF TG_OP = 'DELETE' THEN
            INSERT INTO {buffer} (action, {names}) VALUES ('D', {old});
        ELSE
            changed := {bits};
            IF changed <> {none} THEN
                -- D before I, so that the last row of a key by change_id is its newest
                INSERT INTO {buffer} (action, changed_cols, {names})
                VALUES ('D', changed, {old}), ('I', changed, {new});
            END IF;
        END IF;
    """).format(
        buffer=capture.buffer,
        names=_names(capture),
        old=_fields("OLD", capture.columns),
        new=_fields("NEW", capture.columns),
        bits=_bits(capture.columns, [(o.as_string(None), n.as_string(None)) for o, n in pairs]),
        none=_no_bits(capture),
    )


def _truncate_body(capture: Capture) -> sql.Composed:
    """TRUNCATE takes away rows that an older snapshot cannot see: only READ COMMITTED can write them all."""
    insert = sql.SQL("INSERT INTO {buffer} (action, {names}) SELECT 'D', {fields} FROM ONLY ").format(
        buffer=capture.buffer, names=_names(capture), fields=_fields("r", capture.columns)
    )
    if capture.source.kind == "p":
        text = sql.Literal(insert.as_string(None).replace("%", "%%") + "%I.%I AS r")
        write = sql.SQL("EXECUTE format({text}, TG_TABLE_SCHEMA, TG_TABLE_NAME);").format(text=text)
    else:
        write = sql.SQL("{insert}{table} AS r;").format(insert=insert, table=capture.source.sql)
    return sql.SQL("""
        IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
            INSERT INTO {losses} (source, reason) VALUES ({source}, {reason});
        ELSE
            {write}
        END IF;
    """).format(
        losses=capture.losses,
        source=capture.source.oid,
        reason="it was truncated by a transaction that cannot see all of its rows",
        write=write,
    )


_BODIES: dict[str, Callable[[Capture], sql.Composed]] = {
    "insert": _insert_body,
    "delete": _delete_body,
    "update": _update_body,
    "truncate": _truncate_body,
    "row": _row_body,
}


# --- the triggers --------------------------------------------------------------------------------

_WHEN = {
    "insert": sql.SQL("AFTER INSERT ON {table} REFERENCING NEW TABLE AS trickle_new FOR EACH STATEMENT"),
    "delete": sql.SQL("AFTER DELETE ON {table} REFERENCING OLD TABLE AS trickle_old FOR EACH STATEMENT"),
    "update": sql.SQL(
        "AFTER UPDATE ON {table} REFERENCING OLD TABLE AS trickle_old NEW TABLE AS trickle_new "
        "FOR EACH STATEMENT"
    ),
    "truncate": sql.SQL("BEFORE TRUNCATE ON {table} FOR EACH STATEMENT"),
    "row": sql.SQL("AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW"),
}


def trigger_statements(capture: Capture) -> list[Statement]:
    """Each waits for the writers of its table to end and then keeps new ones out until we commit."""
    found: list[Statement] = []
    for event in capture.events:
        for table in capture.tables_of(event):
            names = {"trigger": capture.trigger(event), "table": table.sql}
            found.append(
                sql.SQL("CREATE OR REPLACE TRIGGER {trigger} {when} EXECUTE FUNCTION {function}()").format(
                    **names, when=_WHEN[event].format(table=table.sql), function=capture.function(event)
                )
            )
            if capture.source.owned:  # else they rest where session_replication_role is replica
                found.append(sql.SQL("ALTER TABLE {table} ENABLE ALWAYS TRIGGER {trigger}").format(**names))
    return found


def drop_functions(capture: Capture, events: Iterable[str] = EVENTS) -> list[Statement]:
    """A function takes its triggers along; only the owner of the table could drop these alone."""
    return [
        sql.SQL("DROP FUNCTION IF EXISTS {name}() CASCADE").format(name=capture.function(event))
        for event in events
    ]


# --- pieces --------------------------------------------------------------------------------------


def _names(capture: Capture) -> sql.Composed:
    return _COMMA.join(map(sql.Identifier, capture.buffer_names))


def _field(row: str, column: SourceColumn) -> sql.Composed:
    return sql.SQL(".").join([sql.SQL(row), sql.Identifier(column.name)])


def _fields(row: str, columns: Sequence[SourceColumn]) -> sql.Composed:
    return _COMMA.join(_field(row, c) for c in columns)


def _renamed_fields(columns: Sequence[SourceColumn], half: str) -> sql.Composed:
    """Names of our own: those of the source could be the same on both sides, or the same as ours."""
    return _COMMA.join(
        sql.SQL("{field} AS {name}").format(field=_field("r", c), name=sql.Identifier(f"{half}{n}"))
        for n, c in enumerate(columns)
    )


def _bits(columns: Sequence[SourceColumn], pairs: Sequence[tuple[str, str]]) -> sql.SQL:
    """A bit for each column, 1 where old and new differ, put together in integers because that is fast."""
    differ = [_differ(c, old, new) for c, (old, new) in zip(columns, pairs, strict=True)]
    words = []
    for start in range(0, len(differ), _CHUNK):
        chunk = differ[start : start + _CHUNK]
        bits = " | ".join(f"({bit}::int4 << {len(chunk) - 1 - n})" for n, bit in enumerate(chunk))
        words.append(f"({bits})::bit({len(chunk)})::varbit")
    return sql.SQL(f"({' || '.join(words)})")


def _differ(column: SourceColumn, old: str, new: str) -> str:
    """Whether a value became another one, also where = calls them equal or does not exist."""
    if column.bitwise:
        return f"({old} IS DISTINCT FROM {new})"
    return f"(ROW({old})::record *<> ROW({new})::record)"


def _no_bits(capture: Capture) -> sql.SQL:
    return sql.SQL(f"B'{'0' * len(capture.columns)}'")
