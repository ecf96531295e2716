"""Types of PostgreSQL that a published column may grow from and to."""

from __future__ import annotations

import pytest

from spark_trickle.targets.postgres.follow import holds_all_of


@pytest.mark.parametrize(
    ("narrower", "wider"),
    [
        ("smallint", "integer"),
        ("integer", "bigint"),
        ("character varying(10)", "character varying(20)"),
        ("character varying(10)", "text"),
        ("numeric(10,2)", "numeric(12,2)"),
        ("numeric(10,2)", "numeric(12,4)"),
        ("real", "double precision"),
    ],
)
def test_what_grows_and_does_not_shrink(narrower: str, wider: str) -> None:
    assert holds_all_of(wider, narrower)
    assert not holds_all_of(narrower, wider)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("numeric(10,2)", "numeric(10,4)"),
        ("text", "integer"),
        ("integer", "text"),
        ("bigint", "double precision"),
        ("date", "timestamp without time zone"),
    ],
)
def test_what_is_another_type(old: str, new: str) -> None:
    assert not holds_all_of(new, old)
    assert not holds_all_of(old, new)
