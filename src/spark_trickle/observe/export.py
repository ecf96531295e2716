"""A stream table -> a statement that creates it again, from any schema and with the current names."""

from __future__ import annotations

import re

from spark_trickle.model.catalog import Catalog
from spark_trickle.model.stream import Stream
from spark_trickle.model.table import Relation, Table, View
from spark_trickle.model.types import sql_name
from spark_trickle.refresh.query_names import wording_of
from spark_trickle.sql.lexer.words import quote, quote_literal, split_words
from spark_trickle.sql.names.references import Reference
from spark_trickle.sql.names.replace_references import replace_references
from spark_trickle.txn.work import Work

_PLAIN = re.compile(r"\w+(\.\d+)?")


def definition_sql(work: Work, table: Table, stream: Stream) -> str:
    columns = ", ".join(quote(c) for c in table.column_names)
    parts = [f"CREATE STREAM TABLE {_full_name(table)} ({columns})"]
    if stream.schedule is not None:
        cron = stream.schedule.lower().startswith("cron ")
        text = stream.schedule[5:] if cron else stream.schedule
        parts.append(f"{'SCHEDULE CRON' if cron else 'SCHEDULE'} {quote_literal(text)}")
    parts.append(f"REFRESH MODE {stream.mode}")
    options = [f"{k} = {_render_option(v)}" for k, v in sorted(stream.options.to_texts().items())]
    if options:
        parts.append(f"WITH ({', '.join(options)})")
    texts = wording_of(work.catalog, stream).texts
    return "\n".join(
        [*parts, f"AS {_query_by_present_names(stream.query, stream.home, texts, work.catalog)}"]
    )


def _render_option(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else quote_literal(value)


def _query_by_present_names(query: str, home: str, texts: Catalog, now: Catalog) -> str:
    """The query with the full name of every relation, and with what has other names by now translated."""
    has_star = any(word.upper == "*" for word in split_words(query))

    def find_replacement(reference: Reference) -> str | None:
        if reference.is_function:
            return None
        known = texts.find(reference.parts, home)
        return _render_relation(known, has_star, texts, now) if known is not None else None

    return replace_references(query, find_replacement)


def _render_relation(known: Relation, has_star: bool, texts: Catalog, now: Catalog) -> str:
    if isinstance(known, Table):
        present = now.table_by_id(known.id)
        if present is None or _reads_the_same(known, present, has_star):
            return _full_name(present or known)
        return _with_known_columns(known, present)
    inside = texts.enter_view(known)
    text = _query_by_present_names(known.sql, known.home, inside, now)
    if text == _query_by_present_names(known.sql, known.home, now, now):
        return _full_name(known)
    # The text of the view names what is called otherwise by now, so it is written out.
    pairs = zip(known.source_columns, known.column_names, strict=True)
    return f"(SELECT {', '.join(f'{quote(c)} AS {quote(n)}' for c, n in pairs)} FROM ({text}))"


def _reads_the_same(known: Table, present: Table, has_star: bool) -> bool:
    """Whether the columns have the names they had; of those that came later only a * would take notice."""
    before, after = ([(c.id, c.name) for c in t.columns] for t in (known, present))
    return before == after or (not has_star and set(before) <= set(after))


def _with_known_columns(known: Table, present: Table) -> str:
    names = {c.id: c.name for c in present.columns}
    listed = (
        f"{quote(names[c.id]) if c.id in names else f'CAST(NULL AS {sql_name(c.type)})'} AS {quote(c.name)}"
        for c in known.columns
    )
    return f"(SELECT {', '.join(listed)} FROM {_full_name(present)})"


def _full_name(relation: Table | View) -> str:
    return f"{quote(relation.schema)}.{quote(relation.name)}"
