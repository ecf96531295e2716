"""CREATE and DROP of schemas and views -> definitions of a transaction."""

from __future__ import annotations

from spark_trickle.errors import (
    AlreadyExistsError,
    InvalidDefinitionError,
    TableNotFoundError,
)
from spark_trickle.model import commit
from spark_trickle.model.table import (
    DEFAULT_SCHEMA,
    HIDDEN_SCHEMA,
    Schema,
    Table,
    View,
    display_names,
)
from spark_trickle.sql.names.references import find_references
from spark_trickle.sql.statements import kinds as s
from spark_trickle.txn.names import (
    check_column_names,
    check_name,
    drop_relation,
    free_name,
    make_room,
    refuse_readers,
    refuse_view_readers,
)
from spark_trickle.txn.query import run_query
from spark_trickle.txn.work import Work


def create_schema(work: Work, statement: s.CreateSchema) -> None:
    if statement.name.lower() in (HIDDEN_SCHEMA, "trickle"):
        raise InvalidDefinitionError(
            f'the schema name "{statement.name}" is reserved', "Choose another name."
        )
    check_name(statement.name)
    if statement.name.lower() in work.catalog.schemas:
        if statement.if_not_exists:
            return
        raise AlreadyExistsError("schema", statement.name)
    work.define(commit.CreatedSchema(Schema(work.new_id(), statement.name)))


def drop_schema(work: Work, statement: s.DropSchema) -> None:
    if statement.if_exists and statement.name.lower() not in work.catalog.schemas:
        return
    schema = work.catalog.schema(statement.name)
    if schema.name == DEFAULT_SCHEMA:
        raise InvalidDefinitionError(
            f'schema "{DEFAULT_SCHEMA}" cannot be dropped', "Drop its tables instead."
        )
    members = work.catalog.list_members(schema.name)
    if members and not statement.cascade:
        raise InvalidDefinitionError(
            f'schema "{schema.name}" is not empty: {", ".join(display_names(members))}',
            "Drop these first, or use DROP SCHEMA … CASCADE.",
        )
    leaving = frozenset(m.id for m in members)
    for member in members:
        if isinstance(member, Table):
            refuse_readers(work, member, "dropped", leaving=leaving)
        else:
            refuse_view_readers(work, member, leaving)
    for member in members:
        drop_relation(work, member)
    work.define(commit.DroppedSchema(schema))


def create_view(work: Work, statement: s.CreateView) -> None:
    schema, name = free_name(work, statement.name)
    columns = run_query(work, statement.query).columns  # a wrong query is refused now, not when it is read
    if statement.columns and len(statement.columns) != len(columns):
        raise InvalidDefinitionError(
            f"the view names {len(statement.columns)} columns, but its query has {len(columns)}",
            "Name every column of the query.",
        )
    names = list(statement.columns or columns)
    check_column_names(names)
    _refuse_itself(work, (schema, name), statement.query, work.place.schema)
    if not make_room(work, statement.name, "view", statement.replace, statement.if_not_exists):
        return
    view = View(
        id=work.new_id(),
        schema=schema,
        name=name,
        sql=statement.query,
        column_names=tuple(names),
        comment=statement.comment,
        source_columns=tuple(columns),
        home=work.place.schema,
    )
    work.define(commit.CreatedView(view))


def _refuse_itself(work: Work, name: tuple[str, str], query: str, home: str) -> None:
    """A view that is replaced must not be read by its new query, nor by a view in it."""
    for reference in find_references(query):
        found = None if reference.is_function else work.catalog.find(reference.parts, home)
        if not isinstance(found, View):
            continue
        if (found.schema.lower(), found.name.lower()) == (name[0].lower(), name[1].lower()):
            raise InvalidDefinitionError(
                f'the view "{found.full_name}" would contain itself', "Give the new view another name."
            )
        _refuse_itself(work, name, found.sql, found.home)


def drop_view(work: Work, statement: s.DropView) -> None:
    found = work.catalog.find(statement.name, work.place.schema)
    if found is None and statement.if_exists:
        return
    if found is None:
        views = (r for r in work.catalog.relations.values() if isinstance(r, View))
        raise TableNotFoundError(
            ".".join(statement.name), display_names(views, work.place.schema), wanted="view"
        )
    if not isinstance(found, View):
        kind = "table" if found.stream is None else "stream table"
        raise TableNotFoundError(found.full_name, wanted="view", found=kind)
    refuse_view_readers(work, found)
    work.define(commit.DroppedView(found))
