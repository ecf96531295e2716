"""UPDATE -> old and new images."""

from __future__ import annotations

from spark_trickle.dml import actions, rows
from spark_trickle.dml.assign import default_sql, render_stored
from spark_trickle.dml.choices import RowChoice, choose_among, note_choice
from spark_trickle.dml.delete import most_target_rows, target_sql
from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.model.report import Result
from spark_trickle.model.table import Table
from spark_trickle.spark.frames import Frame
from spark_trickle.spark.run import run_sql
from spark_trickle.sql.lexer.words import quote
from spark_trickle.sql.statements.determinism import judges_values
from spark_trickle.sql.statements.kinds import Assignment, Update
from spark_trickle.txn.query import run_query
from spark_trickle.txn.work import Work


def update_rows(work: Work, statement: Update) -> Result:
    table = work.find_target(statement.table)
    assigned = collect_assignments(table, statement.assignments)
    matched = run_query(work, _render_matched(table, statement, assigned), target=choose_among(work, table))
    note_choice(work, table, _make_choice(table, statement))
    touches_key = any(column_id in table.key for column_id in assigned)
    plan = rows.RowPlan(
        table,
        _compute_images(work, table, matched, assigned, statement.source is not None),
        has_old=True,
        has_new=True,
        most_rows=most_target_rows(work, table, statement, statement.source is None),
        changes_key=touches_key,
        single_hit=statement.source is not None,
        whole=judges_values(statement.ctes, statement.source, statement.where, *assigned.values()),
        is_update=True,
    )
    return rows.apply_plan(work, plan)


def collect_assignments(table: Table, assignments: tuple[Assignment, ...]) -> dict[int, str]:
    """Column id -> SQL text; a column may be assigned once."""
    found: dict[int, str] = {}
    for assignment in assignments:
        column = table.column(assignment.column)
        if column.id in found:
            raise InvalidDefinitionError(
                f'column "{column.name}" is assigned twice', "Assign each column once."
            )
        is_default = assignment.value.strip().upper() == "DEFAULT"
        found[column.id] = default_sql(column) if is_default else assignment.value
    return found


def render_numbered_target(table: Table, alias: str) -> str:
    """The target with a number on each row, to see whether one is hit twice."""
    return (
        f"(SELECT *, monotonically_increasing_id() AS {actions.TARGET} FROM {target_sql(table)}) AS {alias}"
    )


def _render_matched(table: Table, statement: Update, assigned: dict[int, str]) -> str:
    alias = quote(statement.alias or table.name)
    images = [f"{alias}.{quote(c)} AS {actions.old_image(n)}" for n, c in enumerate(table.column_names)]
    values = [f"({value}) AS _v{column_id}" for column_id, value in assigned.items()]
    source = f"{target_sql(table)} AS {alias}"
    if statement.source is not None:
        source = f"{render_numbered_target(table, alias)}, {statement.source}"
        images.append(f"{alias}.{actions.TARGET}")
    return (
        f"{statement.ctes}SELECT {', '.join(images + values)} FROM {source} WHERE {statement.where or 'true'}"
    )


def _make_choice(table: Table, statement: Update) -> RowChoice:
    relations = f"{target_sql(table)} AS {quote(statement.alias or table.name)}"
    if statement.source is not None:
        relations += f", {statement.source}"
    return RowChoice(statement.ctes, relations, statement.where or "true", is_alone=statement.source is None)


def _compute_images(
    work: Work, table: Table, matched: Frame, assigned: dict[int, str], numbered: bool
) -> Frame:
    olds = ", ".join(actions.old_image(n) for n in range(len(table.columns)))
    values = [
        render_stored(matched, f"_v{c.id}", c) if c.id in assigned else actions.old_image(n)
        for n, c in enumerate(table.columns)
    ]
    news = ", ".join(f"{value} AS {actions.new_image(n)}" for n, value in enumerate(values))
    target = f", {actions.TARGET}" if numbered else ""
    inner = f"SELECT {olds}, {news}, '{actions.UPDATE}' AS {actions.ACTION}{target} FROM {{matched}}"
    text = f"SELECT *, {actions.same_image_sql(table)} AS {actions.SAME} FROM ({inner})"
    return run_sql(work.place.spark, text, matched=matched)
