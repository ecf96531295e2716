"""The table of a statement or a query -> its rows, and a note of which of them are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_trickle.model.table import Table, View
from spark_trickle.spark.frames import Frame
from spark_trickle.sql.names.references import find_references
from spark_trickle.sql.statements.determinism import judges_lastingly
from spark_trickle.sql.statements.single_read import find_single_read
from spark_trickle.txn.query import StatementTarget, run_query
from spark_trickle.txn.reads import ReadSet, TableRead
from spark_trickle.txn.work import Work


@dataclass(frozen=True)
class RowChoice:
    """How a statement chooses among the rows of its target.

    `relations` is what stands after FROM, the target among it; `condition` holds for the rows it looks at.
    """

    ctes: str
    relations: str
    condition: str
    is_alone: bool = True  # the target is the only relation
    by_statement: bool = True


def choose_among(work: Work, table: Table) -> StatementTarget:
    return StatementTarget(table, work.target_rows(table))


def note_choice(work: Work, table: Table, choice: RowChoice) -> None:
    """Note which rows of the target the statement looks at; all of them if chance or a clock has a say."""
    if not _is_lasting(work, choice):
        work.reads.note_table(table.id, choice.by_statement)
        return
    # Other tables are seen as they are now, whatever the transaction does to them later.
    seen = replace(work.begin_scratch(), reads=ReadSet())

    def select_met_rows(rows: Frame, conditions: Sequence[str]) -> Frame:
        met = " OR ".join(f"({c}\n)" for c in conditions)  # a condition may end in a comment
        text = f"{choice.ctes}SELECT 1 AS met FROM {choice.relations} WHERE {met}"
        return run_query(seen, text, target=StatementTarget(table, rows))

    form = (choice.relations, choice.by_statement) if _is_plain(choice) else (object(),)
    work.reads.note_condition(
        table.id, form, TableRead(choice.by_statement, select_met_rows, (choice.condition,))
    )


def answer_query(work: Work, sql: str) -> Frame:
    """Any query; of one that plainly chooses rows of one table, it is noted which."""
    single = find_single_read(sql)
    table = work.catalog.find(single.parts, work.place.schema) if single else None
    if single is None or not isinstance(table, Table) or table.derived:
        return run_query(work, sql)  # nobody's statements change a derived table
    frame = run_query(work, sql, target=choose_among(work, table))
    note_choice(work, table, RowChoice("", single.relation, single.condition, by_statement=False))
    return frame


def _is_lasting(work: Work, choice: RowChoice) -> bool:
    """Whether it means the same later, with all the views that it names."""
    texts = [(f"{choice.ctes}SELECT 1 FROM {choice.relations} WHERE {choice.condition}", work.place.schema)]
    known = set[int]()
    for text, home in texts:
        if not judges_lastingly(text):
            return False
        found = (work.catalog.find(r.parts, home) for r in find_references(text) if not r.is_function)
        views = {v.id: v for v in found if isinstance(v, View) and v.id not in known}
        known |= views.keys()
        texts += [(v.sql, v.home) for v in views.values()]
    return True


def _is_plain(choice: RowChoice) -> bool:
    """Whether it reads nothing but its target, so that it means the same at every time."""
    return choice.is_alone and not choice.ctes and "SELECT" not in choice.condition.upper()
