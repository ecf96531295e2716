"""Operators and intervals as Spark's grammar reads them; sqlglot's own rules bind other parts together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import Token, TokenType

_UNITS = (
    "YEAR",
    "MONTH",
    "WEEK",
    "DAY",
    "HOUR",
    "MINUTE",
    "SECOND",
    "MILLISECOND",
    "MICROSECOND",
    "NANOSECOND",
)
_UNIT_WORDS = frozenset(u + ending for u in _UNITS for ending in ("", "S"))
_Reads = Callable[[], exp.Expr | None]


class OperatorParser(Spark.Parser):  # type: ignore[misc, valid-type]
    """From loose to tight: |, ^, &, shifts, then + with - and ||."""

    TERM = {**Spark.Parser.TERM, TokenType.DPIPE: exp.DPipe}  # noqa: RUF012

    def _parse_bitwise(self) -> exp.Expr | None:
        return self._parse_left_to_right(self._parse_bitwise_xor, {TokenType.PIPE: exp.BitwiseOr})

    def _parse_bitwise_xor(self) -> exp.Expr | None:
        return self._parse_left_to_right(self._parse_bitwise_and, {TokenType.CARET: exp.BitwiseXor})

    def _parse_bitwise_and(self) -> exp.Expr | None:
        return self._parse_left_to_right(self._parse_shift, {TokenType.AMP: exp.BitwiseAnd})

    def _parse_left_to_right(self, operand: _Reads, kinds: dict[TokenType, Any]) -> exp.Expr | None:
        found = operand()
        while self._match_set(kinds):
            kind = kinds[self._prev.token_type]
            found = self.expression(kind(this=found, expression=operand()))
        return found

    def _parse_shift(self) -> exp.Expr | None:
        found: exp.Expr | None = self._parse_term()
        while True:
            if self._match_pair(TokenType.LT, TokenType.LT):
                found = exp.BitwiseLeftShift(this=found, expression=self._parse_term())
            elif self._match_pair(TokenType.GT, TokenType.GT):
                found = self._parse_right_shift(found)
            else:
                return found

    def _parse_right_shift(self, value: exp.Expr | None) -> exp.Expr:
        if self._match(TokenType.GT):
            return exp.Anonymous(this="shiftrightunsigned", expressions=[value, self._parse_term()])
        return exp.BitwiseRightShift(this=value, expression=self._parse_term())

    # --- intervals ---------------------------------------------------------------------------------

    def _parse_interval(
        self, require_interval: bool = True, parse_function_unit: bool = True
    ) -> exp.Expr | None:
        """INTERVAL 1 DAY 2 HOURS is one value, here a sum in brackets; an interval of columns is none."""
        start = self._index
        if not self._match(TokenType.INTERVAL):
            return None
        parts = self._parse_interval_parts()
        if not parts and self._match(TokenType.STRING):
            parts = [exp.Interval(this=exp.Literal.string(self._prev.text))]
        if not parts:
            self._retreat(start)
            return None
        total: exp.Expr = parts[0]
        for part in parts[1:]:
            total = exp.Add(this=total, expression=part)
        return exp.Paren(this=total) if len(parts) > 1 else total

    def _parse_interval_parts(self) -> list[exp.Expr]:
        parts: list[exp.Expr] = []
        while (part := self._parse_interval_part()) is not None:
            parts.append(part)
        return parts

    def _parse_interval_part(self) -> exp.Expr | None:
        """A number or a text with its unit."""
        start = self._index
        sign = self._prev.text if self._match_set((TokenType.DASH, TokenType.PLUS)) else ""
        if self._match_set((TokenType.NUMBER, TokenType.STRING)):
            value = _sign_literal(sign, self._prev)
            if (unit := self._parse_interval_unit()) is not None:
                return exp.Interval(this=value, unit=unit)
        self._retreat(start)
        return None

    def _parse_interval_unit(self) -> exp.Expr | None:
        if self._curr is None or self._curr.text.upper() not in _UNIT_WORDS:
            return None
        first: exp.Expr = self._parse_var(any_token=True, upper=True)
        if not self._match_text_seq("TO"):
            return first
        return exp.IntervalSpan(this=first, expression=self._parse_var(any_token=True, upper=True))


def _sign_literal(sign: str, token: Token) -> exp.Expr:
    if sign != "-":
        return exp.Literal.string(token.text)
    if token.token_type is TokenType.NUMBER:
        return exp.Literal.string(f"-{token.text}")
    return exp.Neg(this=exp.Literal.string(token.text))
