"""Patterns such as 'public.*, "My Schema".orders' -> which tables they mean."""

from __future__ import annotations

import re
from dataclasses import dataclass

from psycopg import sql

from spark_trickle.errors import InvalidDefinitionError

_PART = re.compile(r'"(?:[^"]|"")*"|[^\s".,]+')
_PATTERN = re.compile(rf"\s*({_PART.pattern})\s*\.\s*({_PART.pattern})\s*(?:,|$)")


@dataclass(frozen=True)
class Pattern:
    """A schema and a table; unquoted parts are lower case and may hold * and ?, as in psql."""

    schema: str
    table: str
    text: str

    @property
    def names_one(self) -> bool:
        """Whether it names one table, so that it is a mistake if there is none."""
        return not any(set("*?") & set(p) for p in (self.schema, self.table) if not p.startswith('"'))

    def matches(self, schema: str, table: str) -> bool:
        return bool(
            _compile_part(self.schema).fullmatch(schema) and _compile_part(self.table).fullmatch(table)
        )


def parse_patterns(text: str) -> tuple[Pattern, ...]:
    found, at = [], 0
    while at < len(text.rstrip()):
        match = _PATTERN.match(text, at)
        if match is None:
            raise InvalidDefinitionError(
                f'"{text}" is not a list of tables',
                "Write schema.table or schema.*, separated by commas; put unusual names in double quotes.",
            )
        found.append(Pattern(match[1], match[2], f"{match[1]}.{match[2]}"))
        at = match.end()
    return tuple(found)


def _compile_part(part: str) -> re.Pattern[str]:
    if part.startswith('"'):
        return re.compile(re.escape(part[1:-1].replace('""', '"')))
    return re.compile(re.escape(part.lower()).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL)


def quote_name(*parts: str) -> str:
    """A name as SQL writes it, quotes and all, for messages that show a statement to run."""
    return sql.Identifier(*parts).as_string(None)
