"""The options of Spark may stand anywhere on the command line, and come to Spark in its own form."""

from __future__ import annotations

import pytest
import typer

from spark_trickle.cli.spark_options import move_to_front, spark_variables

MOVED = [
    ("sql w 'SELECT 1'", "sql w 'SELECT 1'"),
    ("sql w x --master local[1] --json", "--master local[1] sql w x --json"),
    ("run w --conf a=b --set c=d --conf=e=f", "--conf a=b --conf=e=f run w --set c=d"),
    ("sql w -- --master", "sql w -- --master"),
    ("sql w --remote", "--remote sql w"),
]


@pytest.mark.parametrize(("given", "moved"), MOVED)
def test_moving(given: str, moved: str) -> None:
    assert move_to_front(given.split(" ")) == moved.split(" ")


SUBMITTED = {"PYSPARK_GATEWAY_PORT": "1"}
ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
TOLD = [
    ({}, (None, None, []), {}),
    (SUBMITTED, (None, None, []), {}),
    ({}, ("local[1]", None, []), {ARGUMENTS: "--master 'local[1]' pyspark-shell"}),
    ({}, (None, None, ["a=b c"]), {ARGUMENTS: "--conf 'a=b c' pyspark-shell"}),
    (
        {ARGUMENTS: "--jars x pyspark-shell"},
        ("yarn", None, []),
        {ARGUMENTS: "--jars x  --master yarn pyspark-shell"},
    ),
    ({}, (None, "sc://a", []), {"SPARK_REMOTE": "sc://a"}),
]
REFUSED = [
    ({}, (None, None, ["a"])),
    ({}, ("yarn", "sc://a", [])),
    ({}, (None, "sc://a", ["a=b"])),
    (SUBMITTED, ("yarn", None, [])),
    (SUBMITTED, (None, None, ["a=b"])),
]
Options = tuple[str | None, str | None, list[str]]


@pytest.mark.parametrize(("environment", "options", "told"), TOLD)
def test_what_spark_is_told(environment: dict[str, str], options: Options, told: dict[str, str]) -> None:
    assert spark_variables(environment, *options) == told


@pytest.mark.parametrize(("environment", "options"), REFUSED)
def test_what_does_not_go_together(environment: dict[str, str], options: Options) -> None:
    with pytest.raises(typer.BadParameter):
        spark_variables(environment, *options)
