"""A chance -> expressions of the kind that may be evaluated at the driver, and rows to evaluate them over."""

from __future__ import annotations

import datetime
import random
import re
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
    "w": pa.decimal128(38, 2),
    "x": pa.decimal128(38, 6),
    "y": pa.date32(),
}
_VALUES: dict[str, list[Any]] = {
    "i": [-3, -1, 0, 1, 2, 7, 2**31 - 1, -(2**31)],
    "l": [-3, -1, 0, 1, 2, 7, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)],
    "h": [-3, 0, 1, 2, 32767],
    "s": ["", "a", "A", "ab", "é", "z", "😀", " a", "a\nb", "é😀b", "a.b"],
    "t": ["", "a", "b", "it's"],
    "b": [True, False],
    "m": [Decimal("0.00"), Decimal("1.50"), Decimal("-0.05"), Decimal("9999999999999.99")],
    "n": [Decimal(0), Decimal(5), Decimal(-99999)],
    "w": [Decimal("0.00"), Decimal("7.25"), Decimal("-123456789012.35"), Decimal("1e35")],
    "x": [Decimal("0.000001"), Decimal("-3.141592"), Decimal("7.250000"), Decimal("99999.999999")],
    "y": [datetime.date(1994, 1, 1), datetime.date(1970, 1, 1), datetime.date(1600, 2, 29)],
}
_PATTERNS = ("", "a", "%", "_", "a%", "%b", "%a%", "_b", "%.%", "(a|b)", "é", "_%_", "%\n_")
SPARKS_OWN = re.compile("/|`[wx]`")  # quotients and wide decimals, which other engines round otherwise
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
            f"{_text(chance, 0)} {chance.choice(('', 'NOT '))}LIKE '{chance.choice(_PATTERNS)}'",
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
            (
                "`i`",
                "`l`",
                "`h`",
                "`m`",
                "`n`",
                "`w`",
                "`x`",
                "7.0",
                "0.0001",
                "0",
                "1",
                "2147483647",
                "5000000000",
                "0.05",
                "-1",
            )
        )
    one, other = _number(chance, depth - 1), _number(chance, depth - 1)
    test = condition(chance, depth - 1)
    return chance.choice(
        (
            f"({one} + {other})",
            f"({one} - {other})",
            f"{one} * {other}",
            f"(CASE WHEN {other} > 0 THEN {one} / {other} END)",
            f"CAST({one} / 7.0 AS DECIMAL(19, 6))",
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
            "EXTRACT(YEAR FROM `y`)",
            "month(`y`)",
            "EXTRACT(DAY FROM `y`)",
            "quarter(`y`)",
        )
    )


def _text(chance: random.Random, depth: int = 2) -> str:
    parts = ("substring(`s`, 1, 2)", "substring(`s`, 2)", "substr(`s`, 2, 1)", "substring(`s` FROM 1 FOR 0)")
    return chance.choice(("`s`", "`t`", "'a'", "''", "'é'", "'it''s'", "coalesce(`s`, 'none')", *parts))


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
            "DATE '1998-12-01' + INTERVAL 3 MONTHS",
        )
    )
