"""A parsed statement -> what it does: one line for every kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, assert_never

from pyspark.sql import DataFrame

from spark_trickle.dml import definitions, show, views
from spark_trickle.dml.choices import answer_query
from spark_trickle.dml.delete import delete_rows, truncate_table
from spark_trickle.dml.insert import insert_rows
from spark_trickle.dml.merge import merge_rows
from spark_trickle.dml.update import update_rows
from spark_trickle.model.report import Result
from spark_trickle.refresh.drop import drop_stream, find_stream_table
from spark_trickle.refresh.explain import explain_query, explain_stream
from spark_trickle.session.components import Components
from spark_trickle.session.place import change_setting, use_schema
from spark_trickle.spark.frames import frame_of
from spark_trickle.sql.statements import kinds as s
from spark_trickle.txn.connection import WarehouseConnection
from spark_trickle.txn.query import run_query
from spark_trickle.txn.work import Work

S = TypeVar("S")


def run_statement(parts: Components, statement: s.Statement, text: str) -> DataFrame:
    """The rows of a statement that asks, or what a statement that acts tells of itself."""
    done = _dispatch_statement(parts, statement, text)
    return _show_result(parts.connection, done) if isinstance(done, Result) else done


def _dispatch_statement(parts: Components, statement: s.Statement, text: str) -> DataFrame | Result:
    def run_change(action: Callable[[Work, S], Result | None], asked: S) -> Result:
        return parts.transactions.run_change(lambda work: action(work, asked), _first_words(text))

    connection = parts.connection
    match statement:
        case s.Query(query):
            return _answer_query(connection, query)
        # --- rows
        case s.Insert():
            return run_change(insert_rows, statement)
        case s.Update():
            return run_change(update_rows, statement)
        case s.Delete():
            return run_change(delete_rows, statement)
        case s.Merge():
            return run_change(merge_rows, statement)
        case s.Truncate():
            return run_change(_truncate_table, statement)
        # --- transactions
        case s.Begin():
            return parts.transactions.begin_transaction()
        case s.CommitWork():
            return parts.transactions.commit_transaction()
        case s.Rollback():
            return parts.transactions.roll_back()
        # --- stream tables
        case s.RefreshStream(name):
            report = parts.refresher.refresh_table(name)
            return Result(report.rows_inserted, 0, report.rows_deleted, report.snapshot)
        case s.CreateStream():
            return parts.stream_tables.create_stream(statement, _first_words(text))
        case s.AlterStream():
            return parts.stream_tables.alter_stream(statement, _first_words(text))
        case s.DropStream():
            return run_change(drop_stream, statement)
        case s.SteerStream():
            parts.control.steer_stream(statement)
            return _report_newest(connection)
        case s.ExplainStream(name):
            work = connection.read()
            return _show_lines(work, explain_stream(work, find_stream_table(work, name)))
        case s.ExplainQuery(query):
            work = connection.read()
            return _show_lines(work, explain_query(work, query))
        # --- definitions
        case s.CreateTable():
            return run_change(definitions.create_table, statement)
        case s.DropTable():
            return parts.tables.drop_table(statement, _first_words(text))
        case s.RenameTable():
            return run_change(definitions.rename_table, statement)
        case s.AddColumns():
            return run_change(definitions.add_columns, statement)
        case s.DropColumns():
            return run_change(definitions.drop_columns, statement)
        case s.RenameColumn():
            return run_change(definitions.rename_column, statement)
        case s.AlterColumn():
            return run_change(definitions.alter_column, statement)
        case s.CreateSchema():
            return run_change(views.create_schema, statement)
        case s.DropSchema():
            return run_change(views.drop_schema, statement)
        case s.CreateView():
            return run_change(views.create_view, statement)
        case s.DropView():
            return run_change(views.drop_view, statement)
        case s.CreateTempView():
            return _create_temp_view(connection, statement)
        # --- what there is
        case s.ShowTables():
            return show.show_tables(connection.read(), statement)
        case s.ShowSchemas():
            return show.show_schemas(connection.read(), statement)
        case s.ShowColumns():
            return show.show_columns(connection.read(), statement)
        case s.ShowCreateTable():
            return show.show_create_table(connection.read(), statement)
        case s.Describe():
            return show.describe_relation(connection.read(), statement)
        case s.ShowSettings():
            return show.show_settings(connection.read(), statement)
        # --- the connection
        case s.Use():
            use_schema(connection, statement)
            return _report_newest(connection)
        case s.SetSetting():
            change_setting(connection, statement)
            return _report_newest(connection)
        # --- the warehouse
        case s.Optimize():
            return parts.maintenance.optimize_table(statement)
        case s.Vacuum(dry_run=dry_run):
            maintenance = parts.maintenance
            return maintenance.plan_vacuum(statement) if dry_run else maintenance.run_vacuum(statement)
        case s.BackUp(folder, link):
            parts.maintenance.back_up_warehouse(folder, link=link)
            return _report_newest(connection)
        case s.RenewIdentity():
            return parts.maintenance.renew_identity()
        # --- sources and targets
        case s.AttachSource():
            return parts.sources.attach_source(statement)
        case s.DetachSource():
            return parts.sources.detach_source(statement)
        case s.MirrorTable():
            return parts.sources.mirror_table(statement)
        case s.MirrorTables():
            return parts.sources.mirror_tables(statement)
        case s.WidenMirror():
            return parts.sources.widen_mirror(statement)
        case s.ResyncTable():
            return parts.sources.resync_table(statement)
        case s.SyncSource():
            return parts.publisher.sync_source(statement)
        case s.PublishStream():
            return parts.publisher.publish_stream(statement)
        case s.RepairPublished():
            return parts.publisher.repair_published(statement)
        case s.UnpublishStream():
            return parts.publisher.unpublish_stream(statement)
        case _:
            assert_never(statement)


def _answer_query(connection: WarehouseConnection, query: str) -> DataFrame:
    """In a transaction it matters at its commit which rows were looked at."""
    work = connection.read()
    return answer_query(work, query) if work is connection.transaction else run_query(work, query)


def _truncate_table(work: Work, statement: s.Truncate) -> Result:
    return truncate_table(work, work.find_target(statement.table))


def _create_temp_view(connection: WarehouseConnection, statement: s.CreateTempView) -> Result:
    frame = run_query(connection.read(), statement.query)
    if statement.replace:
        frame.createOrReplaceTempView(statement.name)
    else:
        frame.createTempView(statement.name)
    return _report_newest(connection)


def _report_newest(connection: WarehouseConnection) -> Result:
    return Result(snapshot=connection.read().base.id)


def _first_words(text: str) -> str:
    """What a commit says of itself; values stay out of it."""
    return " ".join(text.split()[:3])[:60]


def _show_lines(work: Work, lines: Sequence[tuple[str, str]]) -> DataFrame:
    text = "\n".join(f"{name}: {value}" for name, value in lines)
    return frame_of(work.place.spark, {"plan": "string"}, [(text,)])


def _show_result(connection: WarehouseConnection, result: Result) -> DataFrame:
    counts, spark = result.counts, connection.place.spark
    if result.warnings is not None:  # a stream table was defined
        types = {**dict.fromkeys(counts, "long"), "warnings": "string"}
        return frame_of(spark, types, [(*counts.values(), "\n".join(result.warnings))])
    columns = ", ".join(f"{value}L AS {name}" for name, value in counts.items())
    return spark.sql(f"SELECT {columns}")
