"""What scans read: each has one name, from which it is read again, also in plans that were stored before."""

from __future__ import annotations

import json

import pytest

from spark_trickle.algebra.operators import Scan
from spark_trickle.algebra.references import (
    DriverRef,
    NodeRef,
    Reference,
    RoundPart,
    RoundRef,
    StepRef,
    TableRef,
    read_reference,
)
from spark_trickle.algebra.serialize import dump, load
from spark_trickle.algebra.stateful_operators import Recursive
from spark_trickle.errors import InternalError
from spark_trickle.sql.bind.translate import read_expression
from spark_trickle.sql.render.query import render

LAST = RoundRef(4)
DELETED = LAST.of_part(RoundPart.DELETED)
NAMES: dict[str, Reference] = {
    "t3": TableRef(3),
    "n12": NodeRef(12),
    "r4": LAST,
    "r4_deleted": DELETED,
    "h5": DriverRef(5),
    "k2": StepRef(2),
    "k_r4_2": StepRef(2, LAST),
    "k_r4_deleted_1": StepRef(1, DELETED),
    "k_k1_3": StepRef(3, StepRef(1)),
    "k_k_r4_seed_2_1": StepRef(1, StepRef(2, LAST.of_part(RoundPart.SEED))),
}


@pytest.mark.parametrize("name", NAMES)
def test_names(name: str) -> None:
    assert str(NAMES[name]) == name
    assert read_reference(name) == NAMES[name]


@pytest.mark.parametrize("part", RoundPart)
def test_parts_of_a_recursion(part: RoundPart) -> None:
    assert read_reference(str(LAST.of_part(part))) == LAST.of_part(part)


@pytest.mark.parametrize(
    "name", ["", "t", "3", "x1", "t1_new", "t_r4_1", "r4_", "r4_lost", "k_t1_2", "k__2", "n-1"]
)
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(InternalError):
        read_reference(name)


def test_kinds_differ() -> None:
    assert len({TableRef(1), NodeRef(1), RoundRef(1), StepRef(1), DriverRef(1)}) == 5


def test_stored_plans_and_texts_have_the_names() -> None:
    base, step = Scan(TableRef(3), (("a", "x"),)), Scan(LAST, (("b", "a"),))
    plan = Recursive(base, step, LAST, True)
    text = dump((plan,))
    (stored,) = json.loads(text)
    assert (stored["source"], stored["base"]["source"]) == ("r4", "t3")
    assert load(text, read_expression) == (plan,)
    assert render(base) == "SELECT `x` AS `a` FROM {t3_new}"
