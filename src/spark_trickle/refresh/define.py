"""CREATE STREAM TABLE -> a stream table with the tables of its nodes, and its first rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from spark_trickle.algebra.keys import Key
from spark_trickle.algebra.references import NodeRef
from spark_trickle.dml.definitions import query_columns
from spark_trickle.lake.catalog.scheduling import Alert, raise_alert
from spark_trickle.lake.storage.files import new_table_path
from spark_trickle.model import commit
from spark_trickle.model.report import Result
from spark_trickle.model.schedule import parse_schedule
from spark_trickle.model.stream import Occasion, Source, Stream
from spark_trickle.model.table import HIDDEN_SCHEMA, WEIGHT_ID, Table
from spark_trickle.plan.split import Node
from spark_trickle.refresh.compile import Compiled, analyze_plan, compile_query
from spark_trickle.refresh.concerns import find_concerns
from spark_trickle.refresh.drop import refuse_published, refuse_users
from spark_trickle.refresh.fill import fill_stream
from spark_trickle.refresh.identity import keys_of, with_identity
from spark_trickle.refresh.modes import find_moments, refuse_mirrors
from spark_trickle.refresh.outdated import zone_of
from spark_trickle.spark.frames import Frame
from spark_trickle.sql.statements import kinds as s
from spark_trickle.txn.names import check_column_names, drop_relation, free_name, make_room
from spark_trickle.txn.work import Work, now


def create_stream(work: Work, statement: s.CreateStream, occasion: Occasion = Occasion()) -> Result:  # noqa: B008
    schema, name = free_name(work, statement.name)
    parse_schedule(statement.schedule)
    if not _prepare_name(work, statement):
        return Result(warnings=())
    compiled = compile_query(
        work, statement.query, work.place.schema, statement.columns, statement.options.exact_floats
    )
    asked = Stream(
        statement.query, work.place.schema, statement.mode, statement.schedule, statement.options, (), (), ""
    )
    stream = plan_stream(work, asked, compiled)
    refuse_mirrors(work, stream.mode, compiled.sources)
    _warn_of_blanks(compiled.sources)
    shape = define_shape(work, schema, name, compiled, work.new_id() + 2 * (len(compiled.nodes) - 1))
    table = shape.make_table(stream)
    check_column_names(list(table.column_names))
    work.define(commit.CreatedTable(table))
    told = tell_concerns(work, table, compiled.nodes)
    if statement.options.initialize:
        done = fill_stream(work, table, "created", occasion=occasion)
        return Result(rows_inserted=done.rows_inserted, warnings=told)
    return Result(warnings=told)


def tell_concerns(work: Work, table: Table, nodes: Sequence[Node]) -> tuple[str, ...]:
    """What makes its refreshes dear: in the result of the statement, and as an alert once it is committed."""
    assert table.stream is not None
    texts = tuple(c.text for c in find_concerns(nodes, table.stream.mode, work.place.settings))

    def send_alert() -> None:
        alert = Alert(now(), "costly_definition", table.full_name, " ".join(texts))
        raise_alert(work.place.warehouse.engine, alert)

    if texts:
        work.tell_once_committed(send_alert)
    return texts


def _prepare_name(work: Work, statement: s.CreateStream) -> bool:
    existing = work.catalog.find(statement.name, work.place.schema)
    if isinstance(existing, Table) and existing.stream is not None and statement.replace:
        refuse_users(work, existing, "replaced")
        refuse_published(work, existing)
        drop_relation(work, existing)
        return True
    return make_room(work, statement.name, "table", False, statement.if_not_exists)


def _warn_of_blanks(used: Sequence[Source]) -> None:
    """Spark fills up what a CHAR is compared with; here it is compared as it is stored."""
    filled = sorted(c.name for source in used for c in source.columns if c.type.startswith("CHAR("))
    if filled:
        text = (
            f"{', '.join(filled)}: a stream table compares CHAR values with their trailing blanks; "
            "write the blanks, or use VARCHAR"
        )
        warnings.warn(text, stacklevel=2)


def plan_stream(work: Work, stream: Stream, compiled: Compiled) -> Stream:
    """A stream table with another plan; which tables its nodes have is told when they are defined."""
    return replace(
        stream,
        moments=find_moments(compiled.nodes, stream.mode),
        sources=compiled.sources,
        plan=compiled.text,
        time_zone=zone_of(work, (n.plan for n in compiled.nodes), compiled.sources),
        views=compiled.views,
        known=compiled.known,
    )


@dataclass(frozen=True)
class Shape:
    """What a plan makes: the tables of its nodes, which are defined, and the table that its result needs."""

    nodes: tuple[int, ...]
    table: Table
    key: Key  # of its rows

    def make_table(self, stream: Stream) -> Table:
        return with_identity(replace(self.table, stream=replace(stream, nodes=self.nodes)), self.key)


def define_shape(work: Work, schema: str, name: str, compiled: Compiled, owner: int) -> Shape:
    """Types as Spark has them; the stream table comes last and owns the tables of the nodes."""
    keys = keys_of(work, [n.plan for n in compiled.nodes], compiled.sources)
    tables = _define_nodes(work, name, compiled, owner, keys)
    frame = analyze_plan(work, compiled.nodes[-1].plan, tables)
    return Shape(tuple(t.id for t in tables.values()), _make_table(work, schema, name, frame), keys[-1])


def _define_nodes(
    work: Work, name: str, compiled: Compiled, owner: int, keys: Sequence[Key]
) -> dict[NodeRef, Table]:
    tables: dict[NodeRef, Table] = {}
    for node, key in zip(compiled.nodes[:-1], keys[:-1], strict=True):
        frame = analyze_plan(work, node.plan, tables)
        inner = _make_table(work, HIDDEN_SCHEMA, f"{name}${node.name}_{work.new_id()}", frame)
        tables[node.name] = with_identity(replace(inner, owner=owner), key)
        work.define(commit.CreatedTable(tables[node.name]))
    return tables


def _make_table(work: Work, schema: str, name: str, frame: Frame) -> Table:
    ids = count(WEIGHT_ID + 1)
    columns = query_columns(frame, ids)
    return Table(
        id=work.new_id(),
        schema=schema,
        name=name,
        columns=columns,
        key=(),
        key_enforced=False,
        path=new_table_path(name),
        next_column_id=next(ids),
        view_id=work.new_id() + 1,
    )
