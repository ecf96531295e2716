"""What the user told Spark is left alone; only the rest is chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_trickle.spark.launch import Machine, choose_settings, given_settings

MACHINE = Machine(cores=4, memory_gib=3)
GIVEN = [
    ({}, {}),
    ({"MASTER": "spark://a:1"}, {"spark.master": "spark://a:1"}),
    ({"SPARK_REMOTE": "sc://a"}, {"spark.remote": "sc://a"}),
    ({"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"}, {"spark.master": "yarn"}),
    (
        {"PYSPARK_SUBMIT_ARGS": "--master=yarn --name n pyspark-shell"},
        {"spark.master": "yarn", "spark.app.name": "n"},
    ),
    ({"MASTER": "yarn", "PYSPARK_SUBMIT_ARGS": "-c spark.master=local[1] x"}, {"spark.master": "local[1]"}),
    ({"PYSPARK_SUBMIT_ARGS": "--conf 'a.b=c d=e' --jars x"}, {"a.b": "c d=e"}),
    ({"PYSPARK_SUBMIT_ARGS": "--conf=a.b=c --driver-memory 9g"}, {"a.b": "c", "spark.driver.memory": "9g"}),
    ({"SPARK_CONF_DIR": "{conf}"}, {"spark.master": "yarn", "spark.ui.enabled": "true"}),
    (
        {"SPARK_CONF_DIR": "{conf}", "PYSPARK_SUBMIT_ARGS": "--master local"},
        {"spark.master": "local", "spark.ui.enabled": "true"},
    ),
    ({"SPARK_HOME": "{home}"}, {"spark.master": "yarn", "spark.ui.enabled": "true"}),
]


@pytest.mark.parametrize(("environment", "given"), GIVEN)
def test_what_is_given(environment: dict[str, str], given: dict[str, str], tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(
        "# of the site\nspark.master   yarn\nspark.ui.enabled=true\nalone\n"
    )
    filled = {k: v.format(conf=conf, home=tmp_path) for k, v in environment.items()}
    assert given_settings(filled) == given


CHOSEN = [  # what is given; settings that are chosen, None for those that are not
    ({}, {"spark.master": "local[4]", "spark.sql.shuffle.partitions": "8", "spark.driver.memory": "3g"}),
    (
        {"spark.sql.shuffle.partitions": "5"},
        {"spark.master": "local[4]", "spark.sql.shuffle.partitions": None},
    ),
    ({"spark.master": "local[1]"}, {"spark.master": None, "spark.sql.shuffle.partitions": "8"}),
    (
        {"spark.master": "spark://a:1"},
        {
            "spark.master": None,
            "spark.sql.shuffle.partitions": None,
            "spark.driver.memory": None,
            "spark.app.name": "spark-trickle",
        },
    ),
    ({"spark.master": "local-cluster[2,1,1024]"}, {"spark.sql.shuffle.partitions": None}),
    ({"spark.remote": "local[2]"}, {"spark.master": None, "spark.sql.shuffle.partitions": "8"}),
    ({"spark.remote": "sc://a"}, {"spark.master": None, "spark.app.name": None, "spark.log.level": None}),
]


@pytest.mark.parametrize(("given", "chosen"), CHOSEN)
def test_what_is_chosen(given: dict[str, str], chosen: dict[str, str | None]) -> None:
    found = choose_settings(given, MACHINE)
    assert {name: found.get(name) for name in chosen} == chosen
