"""ALTER STREAM TABLE: a new schedule, mode or option is stored; a new query replaces the rows."""

from __future__ import annotations

from dataclasses import replace

from spark_trickle.model import commit
from spark_trickle.model.report import Result
from spark_trickle.model.schedule import parse_schedule
from spark_trickle.model.stream import RefreshReport
from spark_trickle.refresh.circular_definition import check_mode
from spark_trickle.refresh.compile import nodes_of
from spark_trickle.refresh.define import tell_concerns
from spark_trickle.refresh.drop import find_stream_table
from spark_trickle.refresh.graph import graph_of
from spark_trickle.refresh.modes import find_moments, refuse_mirrors
from spark_trickle.refresh.rebuild import rebuild_stream
from spark_trickle.sql.statements import kinds as s
from spark_trickle.txn.work import Work


def alter_stream(work: Work, statement: s.AlterStream) -> Result:
    """Another schedule or mode is noted; another query is computed beside the old rows, and replaces them."""
    table = find_stream_table(work, statement.name)
    stream = table.stream
    assert stream is not None
    if statement.query is None:
        parse_schedule(statement.schedule)
        new = replace(
            stream,
            schedule=statement.schedule or stream.schedule,
            mode=statement.mode or stream.mode,
            options=stream.options.with_values(statement.options),
        )
        find_moments(nodes_of(stream.plan), new.mode)
        refuse_mirrors(work, new.mode, new.sources)
        if graph_of(work.catalog.tables()).circle_of(table.id):
            check_mode(table, new.mode)
        if "exact_floats" in dict(statement.options):  # another plan
            report = rebuild_stream(work, table, new, "altered")
            return _report_new_definition(work, statement, report)
        work.define(commit.AlteredTable(table, replace(table, stream=new)))
        told = tell_concerns(work, replace(table, stream=new), nodes_of(new.plan)) if statement.mode else ()
        return Result(warnings=told)
    asked = replace(stream, query=statement.query, home=work.place.schema)
    report = rebuild_stream(work, table, asked, "altered", new_query=True)
    return _report_new_definition(work, statement, report)


def _report_new_definition(work: Work, statement: s.AlterStream, report: RefreshReport) -> Result:
    table = find_stream_table(work, statement.name)
    assert table.stream is not None
    told = tell_concerns(work, table, nodes_of(table.stream.plan))
    return Result(report.rows_inserted, 0, report.rows_deleted, warnings=told)
