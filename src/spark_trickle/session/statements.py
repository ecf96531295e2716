"""A parsed statement that changes something -> the function that does it."""

from __future__ import annotations

from typing import assert_never

from pyspark.sql import DataFrame

from spark_trickle.dml.definitions import define
from spark_trickle.dml.delete import delete, truncate
from spark_trickle.dml.insert import insert
from spark_trickle.dml.merge import merge
from spark_trickle.dml.update import update
from spark_trickle.model.report import Result
from spark_trickle.refresh.alter import alter_stream
from spark_trickle.refresh.define import create_stream
from spark_trickle.refresh.drop import drop_stream
from spark_trickle.spark.frames import frame_of
from spark_trickle.sql.statements import kinds as s
from spark_trickle.txn.work import Work


def run_statement(work: Work, statement: s.Definition | s.RowChange | s.StreamChange) -> Result:
    match statement:
        case s.Insert():
            return insert(work, statement)
        case s.Update():
            return update(work, statement)
        case s.Delete():
            return delete(work, statement)
        case s.Merge():
            return merge(work, statement)
        case s.Truncate(table):
            return truncate(work, work.target(table))
        case (
            s.CreateTable()
            | s.DropTable()
            | s.CreateSchema()
            | s.DropSchema()
            | s.CreateView()
            | s.DropView()
            | s.AddColumns()
            | s.DropColumns()
            | s.RenameColumn()
            | s.AlterColumn()
            | s.RenameTable()
        ):
            return define(work, statement)
        case s.CreateStream():
            return create_stream(work, statement)
        case s.DropStream():
            return drop_stream(work, statement)
        case s.AlterStream():
            return alter_stream(work, statement)
        case _:
            assert_never(statement)


def as_text(work: Work, lines: list[tuple[str, str]]) -> DataFrame:
    text = "\n".join(f"{name}: {value}" for name, value in lines)
    return frame_of(work.place.spark, {"plan": "string"}, [(text,)])


def first_words(text: str) -> str:
    """What a commit says of itself; values stay out of it."""
    return " ".join(text.split()[:3])[:60]
