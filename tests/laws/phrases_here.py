"""A chance -> expressions of the kind that may be evaluated at the driver, and rows to evaluate them over."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa

COLUMNS = {
    "i": pa.int32(),
    "l": pa.int64(),
    "h": pa.int16(),
    "s": pa.string(),
    "t": pa.string(),
    "b": pa.bool_(),
    "m": pa.decimal128(15, 2),
    "n": pa.decimal128(5, 0),
    "y": pa.date32(),
}
_VALUES: dict[str, list[Any]] = {
    "i": [-3, -1, 0, 1, 2, 7, 2**31 - 1, -(2**31)],
    "l": [-3, -1, 0, 1, 2, 7, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)],
    "h": [-3, 0, 1, 2, 32767],
    "s": ["", "a", "A", "ab", "é", "z", "😀", " a"],
    "t": ["", "a", "b", "it's"],
    "b": [True, False],
    "m": [Decimal("0.00"), Decimal("1.50"), Decimal("-0.05"), Decimal("9999999999999.99")],
    "n": [Decimal(0), Decimal(5), Decimal(-99999)],
    "y": [datetime.date(1994, 1, 1), datetime.date(1970, 1, 1), datetime.date(1600, 2, 29)],
}
_COMPARE = ("=", "<>", "<", "<=", ">", ">=")


def rows(chance: random.Random, count: int, tame: bool = False) -> pa.Table:
    """Values with their corners; tame ones keep away from where numbers overflow."""

    def value(name: str) -> Any:
        known = [v for v in _VALUES[name] if not tame or not isinstance(v, int) or abs(v) < 100]
        return None if chance.random() < 0.2 else chance.choice(known)

    return pa.table(
        [pa.array([value(n) for _ in range(count)], kind) for n, kind in COLUMNS.items()], names=list(COLUMNS)
    )


def condition(chance: random.Random, depth: int = 2) -> str:
    if depth and chance.random() < 0.4:
        one, other = condition(chance, depth - 1), condition(chance, depth - 1)
        return chance.choice((f"({one} AND {other})", f"({one} OR {other})", f"NOT ({one})"))
    kind = chance.choice((_number, _number, _text, _date))
    one, two, three = (kind(chance, depth) for _ in range(3))
    return chance.choice(
        (
            f"{one} {chance.choice(_COMPARE)} {two}",
            f"{one} IN ({two}, {three})",
            f"{one} NOT IN ({two}, {three})",
            f"{one} BETWEEN {two} AND {three}",
            f"{one} IS NULL",
            f"({one}) IS NOT NULL",
            "`b`",
            "NOT `b`",
            "`b` = false",
            "true",
        )
    )


def value(chance: random.Random) -> str:
    return chance.choice((_number, _number, _number, _text, _date, condition))(chance, 2)


def _number(chance: random.Random, depth: int = 2) -> str:
    if not depth or chance.random() < 0.5:
        return chance.choice(
            ("`i`", "`l`", "`h`", "`m`", "`n`", "0", "1", "2147483647", "5000000000", "0.05", "-1")
        )
    one, other = _number(chance, depth - 1), _number(chance, depth - 1)
    test = condition(chance, depth - 1)
    return chance.choice(
        (
            f"({one} + {other})",
            f"({one} - {other})",
            f"{one} * {other}",
            f"CASE WHEN {test} THEN {one} ELSE {other} END",
            f"CASE WHEN {test} THEN {one} END",
            f"CASE WHEN {test} THEN {one} WHEN `b` THEN NULL ELSE {other} END",
            f"coalesce({one}, {other})",
            f"CAST({one} AS BIGINT)",
            f"CAST({one} AS INT)",
            f"CAST({one} AS DECIMAL(38, 4))",
            f"CAST({one} AS DECIMAL(10, 2))",
            f"(CASE WHEN `i` > 0 THEN CAST({one} AS DOUBLE) / `i` END)",
            f"-({one})",
        )
    )


def _text(chance: random.Random, depth: int = 2) -> str:
    return chance.choice(("`s`", "`t`", "'a'", "''", "'é'", "'it''s'", "coalesce(`s`, 'none')"))


def _date(chance: random.Random, depth: int = 2) -> str:
    return chance.choice(
        (
            "`y`",
            "DATE '1994-01-01'",
            "CAST('1970-01-01' AS DATE)",
            "DATE '1992-02-29' + INTERVAL '1' YEAR",
            "DATE '1994-01-31' + INTERVAL '1' MONTH",
            "DATE '1994-03-31' - INTERVAL '1' MONTH",
            "DATE '1998-12-01' - INTERVAL '90' DAY",
        )
    )
