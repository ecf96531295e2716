"""MERGE -> inserted, updated and deleted rows of one target.

Source and target are joined once: every source row with the target row it matches, if any. Rows of the
target that no source row matches are a second, anti join, made only when a clause asks for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce

from spark_trickle.dml import rows
from spark_trickle.dml.actions import (
    ACTION,
    DELETE,
    INSERT,
    SAME,
    TARGET,
    UPDATE,
    new_image,
    old_image,
    same_image_sql,
)
from spark_trickle.dml.assign import default_sql, render_stored
from spark_trickle.dml.choices import RowChoice, choose_among, note_choice
from spark_trickle.dml.delete import target_sql
from spark_trickle.dml.update import collect_assignments, render_numbered_target
from spark_trickle.errors import QueryError
from spark_trickle.model.report import Result
from spark_trickle.model.table import Table, TableColumn
from spark_trickle.spark.frames import Frame
from spark_trickle.spark.run import run_sql
from spark_trickle.spark.types import cast_name
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.sql.lexer.words import quote
from spark_trickle.sql.statements.determinism import judges_values
from spark_trickle.sql.statements.kinds import Assignment, Merge, MergeClause
from spark_trickle.txn.query import count_referenced_rows, run_query
from spark_trickle.txn.store import write_down
from spark_trickle.txn.work import Work

_CLAUSE = "_trickle_clause"
_SOURCE = "_trickle_source"


@dataclass(frozen=True)
class _Action:
    """A WHEN clause with its number, its kind, and the values it gives to columns."""

    number: int
    clause: MergeClause
    kind: str
    values: dict[int, str]


_Run = Callable[[Callable[[Table, Merge, list[_Action]], str], list[_Action]], Frame]


def merge_rows(work: Work, statement: Merge) -> Result:
    table = work.find_target(statement.table)
    actions = [_make_action(table, statement, n, c) for n, c in enumerate(statement.clauses)]
    joined = [a for a in actions if not a.clause.by_source]
    alone = [a for a in actions if a.clause.by_source]
    frame = reduce(Frame.unionByName, _run_parts(work, table, statement, joined, alone))
    if alone:
        work.reads.note_table(table.id, by_statement=True)
    else:
        note_choice(work, table, _make_choice(table, statement))
    kinds = {a.kind for a in actions}
    plan = rows.RowPlan(
        table,
        frame,
        has_old=bool(kinds & {UPDATE, DELETE}),
        has_new=bool(kinds & {UPDATE, INSERT}),
        most_rows=_most_rows(work, table, statement, bool(alone)),
        changes_key=INSERT in kinds or any(set(a.values) & set(table.key) for a in actions),
        single_hit=True,
        whole=judges_values(
            statement.ctes,
            statement.source,
            statement.condition,
            *(c.condition for c in statement.clauses),
            *(value for a in actions for value in a.values.values()),
        ),
    )
    return rows.apply_plan(work, plan)


def _run_parts(
    work: Work, table: Table, statement: Merge, joined: list[_Action], alone: list[_Action]
) -> list[Frame]:
    """One join for source and target, unless a name means the source in NOT MATCHED and is in both."""
    if alone and joined:
        run = _make_staged_run(work, table, statement)
        return [*_run_joined(work, table, statement, joined, run), run(_render_alone, alone)]
    run = _make_run(work, table, statement)
    return [run(_render_alone, alone)] if alone else _run_joined(work, table, statement, joined, run)


def _run_joined(work: Work, table: Table, statement: Merge, actions: list[_Action], run: _Run) -> list[Frame]:
    try:
        return [run(_render_joined, actions)]
    except QueryError as error:
        if not error.condition.startswith("AMBIGUOUS_REFERENCE"):
            raise
    run = _make_staged_run(work, table, statement)
    matched, unmatched = ([a for a in actions if a.clause.matched is m] for m in (True, False))
    parts = ((_render_joined, matched), (_render_unmatched, unmatched))
    return [run(text, some) for text, some in parts if some]


def _make_run(work: Work, table: Table, statement: Merge) -> _Run:
    """Runs a part of the statement; every part reads the source anew."""
    return lambda text, actions: _compute_images(
        work,
        table,
        run_query(work, text(table, statement, actions), target=choose_among(work, table)),
        actions,
    )


def _make_staged_run(work: Work, table: Table, statement: Merge) -> _Run:
    """The same for several parts: a source that depends on chance is written down, so that they agree."""
    if judges_values(statement.ctes, statement.source):
        return _make_run(work, table, statement)
    staged = write_down(work, table, run_query(work, f"{statement.ctes}SELECT * FROM {statement.source}"))
    alias = _source_alias(statement.source)
    settled = replace(statement, source=f"{{{_SOURCE}}}" + (f" AS {quote(alias)}" if alias else ""))
    return lambda text, actions: _compute_images(
        work,
        table,
        run_query(
            work,
            text(table, settled, actions),
            given={_SOURCE: staged},
            target=choose_among(work, table),
        ),
        actions,
    )


def _make_choice(table: Table, statement: Merge) -> RowChoice:
    """The rows of the target that a row of the source matches; rows that come later may match as well."""
    target = f"{target_sql(table)} AS {quote(statement.alias or table.name)}"
    relations = f"{statement.source} JOIN {target} ON {statement.condition}"
    return RowChoice(statement.ctes, relations, "true", is_alone=False)


def _make_action(table: Table, statement: Merge, number: int, clause: MergeClause) -> _Action:
    if clause.delete:
        return _Action(number, clause, DELETE, {})
    kind = UPDATE if clause.matched or clause.by_source else INSERT
    assignments = clause.assignments
    if assignments is None:
        source = _source_alias(statement.source)
        before = f"{quote(source)}." if source else ""
        assignments = tuple(Assignment(c, f"{before}{quote(c)}") for c in table.column_names)
    return _Action(number, clause, kind, collect_assignments(table, assignments))


def _source_alias(source: str) -> str:
    """The name by which the source's columns are reached: its alias, or the last part of its name."""
    words = Cursor(source).words
    at = len(words) - 1
    if words[at].upper == ")":  # … AS s (a, b)
        depth = 0
        while at >= 0:
            depth += {")": 1, "(": -1}.get(words[at].upper, 0)
            at -= 1
            if depth == 0:
                break
    return words[at].text if at >= 0 and words[at].is_identifier else ""


def _most_rows(work: Work, table: Table, statement: Merge, scans_target: bool) -> rows.Guess:
    known = count_referenced_rows(work, f"{statement.ctes}SELECT * FROM {statement.source}")
    if known is None:
        return rows.Guess.MAYBE_FEW if not scans_target else rows.Guess.MANY
    total = known + (work.row_count(table) if scans_target else 0)
    return rows.Guess.MAYBE_FEW if total <= work.place.settings.max_driver_rows else rows.Guess.MANY


def _render_chosen(actions: list[_Action], matched: str) -> str:
    """The number of the first clause that applies; `matched` is a number, or NULL where nothing matched."""
    cases = []
    for a in actions:
        side = "true" if a.clause.by_source else f"{matched} IS {'NOT NULL' if a.clause.matched else 'NULL'}"
        cases.append(f"WHEN {side} AND ({a.clause.condition or 'true'}) THEN {a.number}")
    return f"CASE {' '.join(cases)} END"


def _select_sql(table: Table, alias: str | None, actions: list[_Action], target: str) -> str:
    """The clause is chosen once and referred to by its name, in case it depends on chance."""
    columns = [f"{_render_chosen(actions, target)} AS {_CLAUSE}"]
    columns += [
        f"{f'{alias}.{quote(c.name)}' if alias else f'CAST(NULL AS {cast_name(c.type)})'} AS {old_image(n)}"
        for n, c in enumerate(table.columns)
    ]
    # A value is computed only for rows of its own clause: elsewhere it might fail.
    for a in actions:
        columns += [
            f"CASE WHEN {_CLAUSE} = {a.number} THEN ({v}) END AS _v{a.number}_{i}"
            for i, v in a.values.items()
        ]
    return f"SELECT {', '.join(columns)}, {target} AS {TARGET}"


def _render_joined(table: Table, statement: Merge, actions: list[_Action]) -> str:
    alias = quote(statement.alias or table.name)
    kind = "LEFT JOIN" if any(not a.clause.matched for a in actions) else "JOIN"
    select = _select_sql(table, alias, actions, f"{alias}.{TARGET}")
    target = render_numbered_target(table, alias)
    return f"{statement.ctes}{select} FROM {statement.source} {kind} {target} ON {statement.condition}"


def _render_unmatched(table: Table, statement: Merge, actions: list[_Action]) -> str:
    """Source rows that match nothing; names in their clauses can only mean the source."""
    select = _select_sql(table, None, actions, "CAST(NULL AS BIGINT)")
    target = f"{target_sql(table)} AS {quote(statement.alias or table.name)}"
    return (
        f"{statement.ctes}{select} FROM {statement.source} LEFT ANTI JOIN {target} ON {statement.condition}"
    )


def _render_alone(table: Table, statement: Merge, actions: list[_Action]) -> str:
    """Target rows that no source row matches; each is there once, so it needs no number."""
    alias = quote(statement.alias or table.name)
    select = _select_sql(table, alias, actions, "CAST(NULL AS BIGINT)")
    target = f"{target_sql(table)} AS {alias}"
    return (
        f"{statement.ctes}{select} FROM {target} LEFT ANTI JOIN {statement.source} ON {statement.condition}"
    )


def _compute_images(work: Work, table: Table, frame: Frame, actions: list[_Action]) -> Frame:
    olds = ", ".join(old_image(n) for n in range(len(table.columns)))
    news = ", ".join(
        f"{_new_sql(frame, n, c, actions)} AS {new_image(n)}" for n, c in enumerate(table.columns)
    )
    kinds = " ".join(f"WHEN {a.number} THEN '{a.kind}'" for a in actions)
    inner = (
        f"SELECT {olds}, {news}, CASE {_CLAUSE} {kinds} END AS {ACTION}, {TARGET} "
        f"FROM {{joined}} WHERE {_CLAUSE} IS NOT NULL"
    )
    same = f"{ACTION} = '{UPDATE}' AND {same_image_sql(table)}"
    return run_sql(work.place.spark, f"SELECT *, ({same}) AS {SAME} FROM ({inner})", joined=frame)


def _new_sql(frame: Frame, n: int, column: TableColumn, actions: list[_Action]) -> str:
    cases = []
    for a in actions:
        if column.id in a.values:
            value = render_stored(frame, f"_v{a.number}_{column.id}", column)
        else:
            value = old_image(n) if a.kind != INSERT else default_sql(column)
        cases.append(f"WHEN {a.number} THEN {value}")
    return f"CASE {_CLAUSE} {' '.join(cases)} END"
