"""Patterns for tables, as a user writes them."""

from __future__ import annotations

import pytest

from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.sources.postgres.names import parse_patterns, quote_name

TABLES = [
    ("public", "orders"),
    ("public", "order_items"),
    ("public", "Orders"),
    ("public", "a.b"),
    ("public", 'quo"te'),
    ("public", "star*"),
    ("My Schema", "x y"),
    ("sales", "orders"),
]

MATCHES = [
    ("public.orders", ["public.orders"]),
    ("PUBLIC.Orders", ["public.orders"]),
    ("public.order*", ["public.orders", "public.order_items"]),
    ("*.orders", ["public.orders", "sales.orders"]),
    ("public.order?", ["public.orders"]),
    ('public."Orders"', ["public.Orders"]),
    ('public."a.b"', ["public.a.b"]),
    ('public."quo""te"', ['public.quo"te']),
    ('public."star*"', ["public.star*"]),
    ('"My Schema"."x y"', ["My Schema.x y"]),
    (" public.orders , sales . orders ", ["public.orders", "sales.orders"]),
    ("", []),
]


@pytest.mark.parametrize(("text", "expected"), MATCHES)
def test_matches(text: str, expected: list[str]) -> None:
    patterns = parse_patterns(text)
    assert [f"{s}.{t}" for s, t in TABLES if any(p.matches(s, t) for p in patterns)] == expected


NAMES_ONE = [("public.orders", True), ("public.*", False), ("?.a", False), ('public."*"', True)]


@pytest.mark.parametrize(("text", "expected"), NAMES_ONE)
def test_names_one(text: str, expected: bool) -> None:
    assert parse_patterns(text)[0].names_one is expected


@pytest.mark.parametrize(
    "text", ["orders", "a.b.c", 'public."open', "a b.c", "a.b c.d", ".", ",", "public.;drop"]
)
def test_refused(text: str) -> None:
    if text == "public.;drop":  # an odd name, but it can only be compared with names that exist
        assert not parse_patterns(text)[0].matches("public", "drop")
        return
    with pytest.raises(InvalidDefinitionError):
        parse_patterns(text)


def test_quoted() -> None:
    assert quote_name('a"b', "c.d") == '"a""b"."c.d"'
