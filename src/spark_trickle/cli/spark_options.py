"""--master, --remote and --conf, anywhere on the command line -> what Spark reads when it starts."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

_OPTIONS = ("--master", "--remote", "--conf")


class SparkOptionsGroup(TyperGroup):
    """Every command takes the options of Spark, before or after its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, move_to_front(args))


def move_to_front(arguments: Sequence[str]) -> list[str]:
    """The options of Spark with their values first; what follows -- stays as it is."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    front: list[str] = []
    rest: list[str] = []
    words = iter(arguments[:end])
    for word in words:
        if word in _OPTIONS:
            front += [word, *([value] if (value := next(words, None)) is not None else [])]
        elif word.startswith(tuple(f"{option}=" for option in _OPTIONS)):
            front.append(word)
        else:
            rest.append(word)
    return [*front, *rest, *arguments[end:]]


def choose_spark(
    master: Annotated[
        str | None, typer.Option(help="The master of Spark, such as local[4] or spark://host:7077.")
    ] = None,
    remote: Annotated[
        str | None, typer.Option(help="A Spark Connect server, such as sc://host:15002.")
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="A Spark setting as name=value; may be repeated.")
    ] = None,
) -> None:
    """Stream tables for Apache Spark: results of queries that stay fresh by computing only what changed."""
    os.environ.update(spark_variables(os.environ, master, remote, conf or []))


def spark_variables(
    environment: Mapping[str, str], master: str | None, remote: str | None, conf: list[str]
) -> dict[str, str]:
    if any("=" not in pair for pair in conf):
        raise typer.BadParameter("write a Spark setting as --conf name=value")
    if (master or remote or conf) and "PYSPARK_GATEWAY_PORT" in environment:
        raise typer.BadParameter("spark-submit has already started Spark; give these options to spark-submit")
    if remote and (master or conf):
        raise typer.BadParameter("a Spark Connect server has its own settings: give only --remote")
    if remote:
        return {"SPARK_REMOTE": remote}
    given = [*(["--master", master] if master else []), *(w for pair in conf for w in ("--conf", pair))]
    if not given:
        return {}
    before = environment.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    options = before.removesuffix("pyspark-shell")
    return {"PYSPARK_SUBMIT_ARGS": f"{options} {shlex.join(given)} pyspark-shell".strip()}
