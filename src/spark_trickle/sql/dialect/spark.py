"""Query text <-> sqlglot's tree, in a dialect that changes nothing of what Spark would understand.

sqlglot translates functions between dialects, and loses on the way what Spark means by them. So here every
function stays the name and arguments that the user wrote; only syntax with words inside, such as CAST,
is understood.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import DialectType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from spark_trickle.errors import SqlSyntaxError, UnsupportedError
from spark_trickle.sql.dialect.depth import room_to_recurse, with_flat_chains
from spark_trickle.sql.dialect.operators import OperatorParser
from spark_trickle.sql.lexer.words import split_words

_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "POSITION", "SUBSTRING", "OVERLAY")
_SELECT_ALL = Spark().tokenize("SELECT * FROM")
DEEPEST = 60  # nested brackets
MOST_PARTS = 200  # queries that set operations put together
_SET_OPERATIONS = ("UNION", "INTERSECT", "EXCEPT", "MINUS")


class Verbatim(Spark):
    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012 since Spark 4 a quote is also doubled

    class Parser(OperatorParser):
        FUNCTIONS: dict[str, Any] = {}  # noqa: RUF012
        FUNCTION_PARSERS = {k: v for k, v in Spark.Parser.FUNCTION_PARSERS.items() if k in _SYNTAX}  # noqa: RUF012
        FUNCTION_PARSERS["SUBSTR"] = FUNCTION_PARSERS["SUBSTRING"]
        NO_PAREN_FUNCTIONS: dict[Any, Any] = {}  # noqa: RUF012
        ARRAY_CONSTRUCTORS: dict[str, Any] = {}  # noqa: RUF012
        UNARY_PARSERS = {  # noqa: RUF012
            **Spark.Parser.UNARY_PARSERS,
            # +3 is no number to Spark but a call, whose type has room for more digits.
            TokenType.PLUS: lambda self: exp.Anonymous(this="positive", expressions=[self._parse_unary()]),
        }

        def _parse_pivot_aggregation(self) -> exp.Expr | None:
            """Spark takes any expression over aggregate functions here, not only a call."""
            found: exp.Expr | None = self._parse_alias(self._parse_bitwise())
            return found

        def _parse_types(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
            """TIMESTAMP WITHOUT TIME ZONE: sqlglot reads on after the three words and forgets them."""
            found: exp.Expr | None = super()._parse_types(*args, **kwargs)
            before = [t.text.upper() for t in self._tokens[max(self._index - 3, 0) : self._index]]
            instant = isinstance(found, exp.DataType) and found.this is exp.DType.TIMESTAMPTZ
            if found is not None and instant and before == ["WITHOUT", "TIME", "ZONE"]:
                found.set("this", exp.DType.TIMESTAMPNTZ)
            return found

    class Generator(Spark.Generator):  # type: ignore[misc, valid-type]
        SUPPORTS_TEMPORAL_PRECISION = True
        TYPE_MAPPING = {**Spark.Generator.TYPE_MAPPING, exp.DType.TIME: "TIME"}  # noqa: RUF012 no TIMESTAMP

    def tokenize(self, sql: str, dialect: DialectType = None) -> list[Token]:
        """3L stays a number as it is written: a cast would have other digits, and -128Y would not fit."""
        found: list[Token] = []
        for token in super().tokenize(sql, dialect):
            if _is_suffix(token, found):
                number = found[-2]
                place = token.line, token.col, number.start, token.end
                found[-2:] = [Token(TokenType.NUMBER, number.text + token.text, *place)]
            else:
                found.append(token)
        return found


def _is_suffix(token: Token, before: list[Token]) -> bool:
    """sqlglot reads 3L as 3::L."""
    if token.text.upper() not in Verbatim.Tokenizer.NUMERIC_LITERALS:
        return False
    return [t.token_type for t in before[-2:]] == [TokenType.NUMBER, TokenType.DCOLON]


def parse_query(text: str) -> exp.Query:
    refuse_large_query(text)
    with room_to_recurse():
        query = _parse_text(text)
        with_flat_chains(query)
        return query


def parse_expression(text: str) -> exp.Expr | None:
    """An expression of a plan, read again."""
    with room_to_recurse():
        found = Verbatim().parse(text)[0]
        return None if found is None else with_flat_chains(found)


def _parse_text(text: str) -> exp.Query:
    try:
        tokens = _read_tokens(text)
        _refuse_pipes(tokens)
        found = Verbatim().parser().parse(tokens, text)
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        detail = str(first.get("description", "the query cannot be read")).rstrip(".").lower()
        near = str(first.get("highlight") or "")
        raise SqlSyntaxError(
            f"{detail}{f' near {near}' if near else ''}", first.get("line") or 0, first.get("col") or 0
        ) from None
    except TokenError as error:
        raise SqlSyntaxError(str(error).splitlines()[0]) from None
    query = found[0] if len(found) == 1 else None
    if isinstance(query, exp.Values):
        query = exp.select("*").from_(query)
    if not isinstance(query, exp.Query):
        raise SqlSyntaxError("expected one query", advice="Write a SELECT here.")
    query = _simplify_calls(query)
    return _unify_lambda_variables(_mark_units(_simplify_subqueries(_simplify_counts(query))))


_BEFORE_QUERY = (
    TokenType.L_PAREN,
    TokenType.R_PAREN,  # after WITH …
    TokenType.UNION,
    TokenType.EXCEPT,
    TokenType.INTERSECT,
    TokenType.ALL,
    TokenType.DISTINCT,
)


def _read_tokens(text: str) -> list[Token]:
    """window(…) is a function, not the clause that names windows; TABLE t is a query."""
    tokens = _drop_levels(Verbatim().tokenize(text))
    for token, after in pairwise(tokens):
        if token.token_type is TokenType.WINDOW and after.token_type is TokenType.L_PAREN:
            token.token_type = TokenType.VAR
    found: list[Token] = []
    for token in tokens:
        starts = not found or found[-1].token_type in _BEFORE_QUERY
        found += _SELECT_ALL if token.token_type is TokenType.TABLE and starts else [token]
    return found


def _refuse_pipes(tokens: list[Token]) -> None:
    """sqlglot merges a step into the SELECT before it, so that it would come before LIMIT and GROUP BY."""
    for token in tokens:
        if token.token_type is TokenType.PIPE_GT:
            raise UnsupportedError(
                "|> in a stream table",
                "Write the steps as nested queries: SELECT … FROM (SELECT …).",
                (token.line, token.col - token.end + token.start),
            )


_LEVEL = ["MAX", "RECURSION", "LEVEL"]


def _drop_levels(tokens: list[Token]) -> list[Token]:
    """r(n) MAX RECURSION LEVEL 10 AS (…) asks Spark to stop there; here a setting says when to stop."""
    words = [t.text.upper() for t in tokens]
    found: list[Token] = []
    at = 0
    while at < len(tokens):
        if words[at : at + 3] == _LEVEL and "".join(words[at + 3 : at + 4]).isdigit():
            at += 4
        else:
            found.append(tokens[at])
            at += 1
    return found


def refuse_large_query(text: str) -> None:
    """Beyond what is tested; Spark and sqlglot would run out of stack somewhat later."""
    depth = parts = 0
    for word in split_words(text):
        depth += {"(": 1, ")": -1}.get(word.upper, 0)
        parts += word.upper in _SET_OPERATIONS
        if depth > DEEPEST:
            raise UnsupportedError(
                f"nesting brackets deeper than {DEEPEST}",
                "Give inner queries names with WITH.",
                (word.line, word.column),
            )
        if parts >= MOST_PARTS:
            raise UnsupportedError(
                f"combining more than {MOST_PARTS} queries with UNION, INTERSECT and EXCEPT",
                "Make stream tables of some of them, and combine these.",
                (word.line, word.column),
            )


def _simplify_counts(query: exp.Query) -> exp.Query:
    """INTERVAL +1 DAY and LIMIT +3: there only a number can stand, so it is no call."""
    for place in query.find_all(exp.Interval, exp.Limit, exp.Offset, exp.Pivot):
        for call in list(place.find_all(exp.Anonymous)):
            if name_of(call) == "positive" and isinstance(call.expressions[0], exp.Literal):
                call.replace(call.expressions[0])
    return query


_HOMES = (["builtin"], ["system", "builtin"])


def _simplify_calls(query: exp.Query) -> exp.Query:
    """`now`() and system.builtin.now() are now()."""
    for call in query.find_all(exp.Anonymous):
        if isinstance(call.this, exp.Identifier) and call.this.name.isidentifier():
            call.set("this", call.this.name)
    for dot in list(query.find_all(exp.Dot)):
        home = [i.name.lower() for i in dot.this.find_all(exp.Identifier, bfs=False)]
        if home in _HOMES and not isinstance(dot.expression, exp.Identifier):
            dot.replace(dot.expression)
    return query


_QUANTIFIERS = {"exists": exp.Exists, "any": exp.Any, "some": exp.Any, "all": exp.All}


def _simplify_subqueries(query: exp.Query) -> exp.Query:
    """EXISTS ((SELECT …)) and > ALL ((SELECT …)): the second brackets make them look like calls."""
    for node in list(query.find_all(exp.Anonymous)):
        kind = _QUANTIFIERS.get(name_of(node))
        inner = node.expressions[0].unnest() if len(node.expressions) == 1 else None
        if kind is not None and isinstance(inner, exp.Query):
            node.replace(kind(this=inner if kind is exp.Exists else exp.Subquery(this=inner)))
    return query


_TAKE_A_UNIT = frozenset(("dateadd", "date_add", "timestampadd", "datediff", "date_diff", "timestampdiff"))
_UNITS = frozenset(
    "year quarter month week day dayofyear hour minute second millisecond microsecond".split()  # noqa: SIM905
)


def _mark_units(query: exp.Query) -> exp.Query:
    """dateadd(DAY, 1, d): the unit is a keyword of the call, also beside a column of that name."""
    for call in query.find_all(exp.Anonymous):
        if name_of(call) in _TAKE_A_UNIT and len(call.expressions) == 3 and _is_unit(call.expressions[0]):
            call.expressions[0].replace(exp.Var(this=call.expressions[0].name))
    return query


def _is_unit(node: exp.Expr) -> bool:
    bare = isinstance(node, exp.Column) and len(node.parts) == 1 and not node.this.args.get("quoted")
    return bare and node.name.lower() in _UNITS


def _unify_lambda_variables(query: exp.Query) -> exp.Query:
    """X -> x + 1: Spark finds variables whatever their case, sqlglot would leave x for a column."""
    for found in reversed(list(query.find_all(exp.Lambda))):  # inner ones first
        names = {v.name.lower() for v in found.expressions}
        for column in list(found.this.find_all(exp.Column)):
            first, *rest = column.parts
            if not isinstance(first, exp.Identifier) or first.name.lower() not in names:
                continue
            value: exp.Expr = first.copy()
            for part in rest:
                value = exp.Dot(this=value, expression=part.copy())
            column.replace(value)
    return query


def sql_of(node: exp.Expr) -> str:
    return node.sql(dialect=Verbatim)


def name_of(node: exp.Expr) -> str:
    """The lower-case name of a function, or an empty text."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    return ""
