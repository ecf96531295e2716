"""CREATE and ALTER STREAM TABLE, and what must be defined anew before a refresh."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from spark_trickle.algebra.keys import Key
from spark_trickle.dml.definitions import query_columns
from spark_trickle.errors import (
    InUseError,
    InvalidDefinitionError,
    UnsupportedError,
)
from spark_trickle.lake.catalog import states
from spark_trickle.lake.catalog.engine import reading
from spark_trickle.lake.catalog.scheduling import Alert, raise_alert
from spark_trickle.lake.storage.files import new_table_path
from spark_trickle.model import commit
from spark_trickle.model.report import Result
from spark_trickle.model.schedule import parse_schedule
from spark_trickle.model.stream import Action, Mode, Refreshed, RefreshReport, Source, Stream
from spark_trickle.model.stream_options import StreamOptions
from spark_trickle.model.table import HIDDEN_SCHEMA, WEIGHT_ID, Column, Table
from spark_trickle.model.types import can_widen
from spark_trickle.plan.split import Node
from spark_trickle.refresh.circle import is_circle, refresh_circle
from spark_trickle.refresh.circular_definition import check_circle, check_mode
from spark_trickle.refresh.compile import Compiled, compile_query, nodes_of, over_empty_tables
from spark_trickle.refresh.concerns import find_concerns
from spark_trickle.refresh.decide import Decision, Facts
from spark_trickle.refresh.drop import refuse_published, refuse_users, stream_table
from spark_trickle.refresh.graph import Graph, graph_of
from spark_trickle.refresh.identity import keys_of, with_identity
from spark_trickle.refresh.inputs import source_table
from spark_trickle.refresh.node import Clock
from spark_trickle.refresh.outdated import find_reasons_to_rebuild, zone_of
from spark_trickle.refresh.query_names import wording_of
from spark_trickle.refresh.refresh import Occasion, outside, refresh, run_nodes
from spark_trickle.refresh.sessions import run_in_child_session
from spark_trickle.spark.frames import Frame
from spark_trickle.sql.dialect.moments import moments_of
from spark_trickle.sql.statements import kinds as s
from spark_trickle.txn.names import check_column_names, drop_relation, free_name, make_room
from spark_trickle.txn.work import Work, now


def create_stream(work: Work, statement: s.CreateStream, occasion: Occasion = Occasion()) -> Result:  # noqa: B008
    schema, name = free_name(work, statement.name)
    if statement.mode not in list(Mode):
        raise InvalidDefinitionError(
            f'there is no refresh mode "{statement.mode}"', f"There are {', '.join(Mode)}."
        )
    options = StreamOptions().with_texts(statement.options)
    parse_schedule(statement.schedule)
    if not _room(work, statement):
        return Result(warnings=())
    compiled = compile_query(
        work, statement.query, work.place.schema, statement.columns, options.exact_floats
    )
    moments = _moments(compiled.nodes, Mode(statement.mode))
    _refuse_mirrors(work, Mode(statement.mode), compiled.sources)
    _warn_of_blanks(compiled.sources)
    table = _define(work, schema, name, statement, compiled, moments)
    told = _tell_concerns(work, table, compiled.nodes)
    if options.initialize:
        done = fill(work, table, "created", occasion=occasion)
        return Result(rows_inserted=done.rows_inserted, warnings=told)
    return Result(warnings=told)


def _tell_concerns(work: Work, table: Table, nodes: Sequence[Node]) -> tuple[str, ...]:
    """What makes its refreshes dear: in the result of the statement, and as an alert once it is committed."""
    assert table.stream is not None
    texts = tuple(c.text for c in find_concerns(nodes, table.stream.mode, work.place.settings))

    def tell() -> None:
        alert = Alert(now(), "costly_definition", table.full_name, " ".join(texts))
        raise_alert(work.place.warehouse.engine, alert)

    if texts:
        work.once_committed.append(tell)
    return texts


def _room(work: Work, statement: s.CreateStream) -> bool:
    existing = work.catalog.find(statement.name, work.place.schema)
    if isinstance(existing, Table) and existing.stream is not None and statement.replace:
        refuse_users(work, existing, "replaced")
        refuse_published(work, existing)
        drop_relation(work, existing)
        return True
    return make_room(work, statement.name, "table", False, statement.if_not_exists)


def _moments(nodes: Sequence[Node], mode: Mode) -> tuple[str, ...]:
    """Functions of the clock: a difference cannot know when they change."""
    found = moments_of(n.plan for n in nodes)
    if found and mode in (Mode.DIFFERENTIAL, Mode.IMMEDIATE):
        raise UnsupportedError(
            f"{found[0]}() in REFRESH MODE {mode}", "Use AUTO or FULL, or pass the moment in a table."
        )
    return found


def _warn_of_blanks(used: Sequence[Source]) -> None:
    """Spark fills up what a CHAR is compared with; here it is compared as it is stored."""
    filled = sorted(name for source in used for name, _, kind in source.columns if kind.startswith("CHAR("))
    if filled:
        text = (
            f"{', '.join(filled)}: a stream table compares CHAR with its blanks; write them, or use VARCHAR"
        )
        warnings.warn(text, stacklevel=2)


def _refuse_mirrors(work: Work, mode: Mode, used: Sequence[Source]) -> None:
    """Changes of a mirror were committed elsewhere long before we see them."""
    for table in (source_table(work, source) for source in used):
        if mode is Mode.IMMEDIATE and table.mirror is not None:
            raise UnsupportedError(
                f'REFRESH MODE IMMEDIATE over "{table.full_name}", a mirror of {table.mirror.full_name}',
                "Use AUTO with a short schedule: the scheduler refreshes as soon as changes arrive.",
            )


def _define(
    work: Work,
    schema: str,
    name: str,
    statement: s.CreateStream,
    compiled: Compiled,
    moments: tuple[str, ...],
) -> Table:
    """The tables of all nodes, types as Spark has them; the stream table comes last and owns the others."""
    owner = work.new_id() + 2 * (len(compiled.nodes) - 1)
    keys = keys_of(work, [n.plan for n in compiled.nodes], compiled.sources)
    tables = _define_nodes(work, name, compiled, owner, keys)
    frame = over_empty_tables(work, compiled.nodes[-1].plan, tables)
    stream = Stream(
        query=statement.query,
        home=work.place.schema,
        mode=Mode(statement.mode),
        schedule=statement.schedule,
        options=StreamOptions().with_texts(statement.options),
        moments=moments,
        sources=compiled.sources,
        nodes=tuple(t.id for t in tables.values()),
        plan=compiled.text,
        time_zone=zone_of(work, compiled.text, compiled.sources),
        views=compiled.views,
        known=compiled.known,
    )
    table = with_identity(replace(_new_table(work, schema, name, frame), stream=stream), keys[-1])
    check_column_names(list(table.column_names))
    work.define(commit.CreateTable(table))
    return table


def _define_nodes(
    work: Work, name: str, compiled: Compiled, owner: int, keys: Sequence[Key]
) -> dict[str, Table]:
    tables: dict[str, Table] = {}
    for node, key in zip(compiled.nodes[:-1], keys[:-1], strict=True):
        frame = over_empty_tables(work, node.plan, tables)
        inner = _new_table(work, HIDDEN_SCHEMA, f"{name}${node.name}_{work.new_id()}", frame)
        tables[node.name] = with_identity(replace(inner, owner=owner), key)
        work.define(commit.CreateTable(tables[node.name]))
    return tables


def _new_table(work: Work, schema: str, name: str, frame: Frame) -> Table:
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


def fill(
    work: Work,
    table: Table,
    why: str,
    action: Action = Action.FULL,
    occasion: Occasion = Occasion(),  # noqa: B008 a value
) -> RefreshReport:
    """Compute everything at the snapshot that is read; see `run_in_full`."""
    clock = Clock()
    stream = table.stream
    assert stream is not None
    with reading(work.place.warehouse.engine) as connection:
        expected = states.state(connection, table.id).frontier
    facts = Facts(stream.mode, None, work.base.id, (), 0, 0)
    done = run_in_child_session(
        work, table, lambda: run_nodes(work, table, None, Decision(Action.FULL, why), facts, clock)
    )
    report = RefreshReport(
        name=table.full_name,
        action=action,
        reason=why,
        rows_inserted=done.come,
        rows_deleted=done.gone,
        duration_ms=sum(clock.phases.values()),
        phases=clock.phases,
        source_rows=sum(work.row_count(source_table(work, s)) for s in stream.sources),
    )
    before = {r.table_id for r in work.refreshed}  # their rows are read as this commit leaves them
    together = occasion.together or any(s.table_id in before for s in stream.sources)
    work.refreshed.append(
        Refreshed(
            table.id,
            expected,
            work.base.id,
            report,
            clock.started,
            outside=outside(work, [table], occasion.at_commit),
            **replace(occasion, together=together).noted,
        )
    )
    return report


def refresh_stream(work: Work, table: Table, occasion: Occasion = Occasion()) -> RefreshReport:  # noqa: B008
    """A refresh; where types of its sources changed, the plan is made anew first."""
    report = refresh(work, table, occasion)
    if report.action is not Action.REINITIALIZE:
        return report
    assert table.stream is not None
    return rebuild(work, table, table.stream, report.reason, occasion)


def rebuild(
    work: Work,
    table: Table,
    stream: Stream,
    why: str,
    occasion: Occasion = Occasion(),  # noqa: B008 a value
    new_query: bool = False,
) -> RefreshReport:
    """A new plan for a stream table: with the same columns its rows are changed to the new ones."""
    again = _redefine(work, table, stream, new_query)
    graph = graph_of(work.catalog.tables())
    if not graph.circle_of(again.id):
        return fill(work, again, why, Action.REINITIALIZE, occasion)
    reports = _fill_circle(work, graph, again, f"{again.full_name}: {why}", occasion)
    return next(r for r in reports if r.name == again.full_name)


def _redefine(work: Work, table: Table, stream: Stream, new_query: bool = False) -> Table:
    """`new_query`: someone wrote it now, so it means what names mean now, also if its text is the same."""
    same = table.stream is not None and stream.query == table.stream.query
    names = table.column_names if same else ()
    wording = None if new_query else wording_of(work.catalog, stream)
    compiled = compile_query(work, stream.query, stream.home, names, stream.options.exact_floats, wording)
    check_circle(work, table, stream.mode, compiled)
    _refuse_mirrors(work, stream.mode, compiled.sources)
    for node in table.stream.nodes if table.stream else ():
        if (inner := work.catalog.table_by_id(node)) is not None:
            work.define(commit.DropTable(inner))
    keys = keys_of(work, [n.plan for n in compiled.nodes], compiled.sources)
    tables = _define_nodes(work, table.name, compiled, table.id, keys)
    shape = _new_table(
        work, table.schema, table.name, over_empty_tables(work, compiled.nodes[-1].plan, tables)
    )
    new = replace(
        stream,
        moments=_moments(compiled.nodes, stream.mode),
        sources=compiled.sources,
        nodes=tuple(t.id for t in tables.values()),
        plan=compiled.text,
        time_zone=zone_of(work, compiled.text, compiled.sources),
        views=compiled.views,
        known=compiled.known,
    )
    reads_itself = any(source.table_id == table.id for source in compiled.sources)
    columns = _grown(table, shape.columns, widen=not reads_itself)
    if columns:
        again = with_identity(replace(table, columns=columns, stream=new), keys[-1])
        if again.identity != table.identity:  # rows of before may repeat what tells the new ones apart
            again = replace(again, identity=())
        work.define(commit.AlterTable(table, again))
        return again
    refuse_users(work, table, "altered")
    if reads_itself:
        raise InUseError(table.full_name, "given other columns", (table.full_name,))
    refuse_published(work, table)
    work.define(commit.DropTable(table))
    again = replace(shape, id=work.new_id(), view_id=work.new_id() + 1, stream=new)
    again = with_identity(again, keys[-1])
    work.define(commit.CreateTable(again))
    return again


def _grown(table: Table, new: Sequence[Column], widen: bool) -> tuple[Column, ...]:
    """The columns of a stream table with the types that they have now, if its rows can stay; else none.

    So it remains the same table for those that read it and for those that it is published to.
    """
    pairs = list(zip(table.columns, new, strict=False))
    fits = len(table.columns) == len(new) and all(
        old.name == n.name and (old.type == n.type or (widen and can_widen(old.type, n.type)))
        for old, n in pairs
    )
    return tuple(replace(old, type=n.type) for old, n in pairs) if fits else ()


# --- circles -----------------------------------------------------------------------------------------


def refresh_unit(work: Work, unit: Sequence[Table], occasion: Occasion) -> list[RefreshReport]:
    """A stream table, or all that read each other in a circle."""
    if not is_circle(unit):
        return [refresh_stream(work, table, occasion) for table in unit]
    reports = refresh_circle(work, unit, occasion)
    if reports[0].action is not Action.REINITIALIZE:
        return reports
    for table in unit:
        assert table.stream is not None
        if find_reasons_to_rebuild(work, table):
            _redefine(work, table, table.stream)
    return _fill_circle(work, graph_of(work.catalog.tables()), unit[0], reports[0].reason, occasion)


def _fill_circle(
    work: Work, graph: Graph, member: Table, why: str, occasion: Occasion
) -> list[RefreshReport]:
    """All of a circle from nothing; what it reads is refreshed first, so that one commit knows it all."""
    together = replace(occasion, together=True)
    circle = graph.circle_of(member.id)
    done = {r.table_id for r in work.refreshed}
    above = [i for i in graph.ancestors(member.id) if i not in circle and i not in done]
    for unit in graph.units(above):
        refresh_unit(work, [graph.tables[i] for i in unit], together)
    tables = [t for i in circle if (t := work.catalog.table_by_id(i)) is not None]
    return refresh_circle(work, tables, together, Decision(Action.REINITIALIZE, why))


def fill_again(work: Work, table: Table, why: str) -> RefreshReport:
    """Everything anew by the plan that there is; of a circle all members."""
    graph = graph_of(work.catalog.tables())
    if not graph.circle_of(table.id):
        return fill(work, table, why, Action.REINITIALIZE)
    reports = _fill_circle(work, graph, table, why, Occasion())
    return next(r for r in reports if r.name == table.full_name)


def alter_stream(work: Work, statement: s.AlterStream) -> Result:
    """Another schedule or mode is noted; another query is computed beside the old rows, and replaces them."""
    table = stream_table(work, statement.name)
    stream = table.stream
    assert stream is not None
    if statement.query is None:
        parse_schedule(statement.schedule)
        new = replace(
            stream,
            schedule=statement.schedule or stream.schedule,
            mode=Mode(statement.mode or stream.mode),
            options=stream.options.with_texts(statement.options),
        )
        _moments(nodes_of(stream.plan), new.mode)
        _refuse_mirrors(work, new.mode, new.sources)
        if graph_of(work.catalog.tables()).circle_of(table.id):
            check_mode(table, new.mode)
        if "exact_floats" in dict(statement.options):  # another plan
            report = rebuild(work, table, new, "altered")
            return _altered(work, statement, report)
        work.define(commit.AlterTable(table, replace(table, stream=new)))
        told = _tell_concerns(work, replace(table, stream=new), nodes_of(new.plan)) if statement.mode else ()
        return Result(warnings=told)
    asked = replace(stream, query=statement.query, home=work.place.schema)
    report = rebuild(work, table, asked, "altered", new_query=True)
    return _altered(work, statement, report)


def _altered(work: Work, statement: s.AlterStream, report: RefreshReport) -> Result:
    table = stream_table(work, statement.name)
    assert table.stream is not None
    told = _tell_concerns(work, table, nodes_of(table.stream.plan))
    return Result(report.rows_inserted, 0, report.rows_deleted, warnings=told)
