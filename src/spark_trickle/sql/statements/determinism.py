"""Conditions -> whether they look at nothing but values, so that equal rows meet the same fate."""

from __future__ import annotations

from itertools import pairwise

from spark_trickle.sql.lexer.words import WordKind, split_words

# Words that may stand before a bracket and are no function, and functions of values alone. What is not
# listed, a user's own function above all, may differ from row to row; so may OVER (…).
_HARMLESS = frozenset(
    """
    ( , and or not in exists any some all between like ilike rlike when then else case select from where
    on having by as using values join union intersect except distinct is = < > <= >= <> != + - * /
    % || | cast try_cast abs ceil ceiling floor round bround sign signum sqrt power pow mod pmod exp ln
    log log10 log2 greatest least coalesce ifnull nvl nvl2 nullif if isnull isnotnull isnan nanvl upper
    lower ucase lcase trim ltrim rtrim lpad rpad length len char_length character_length substring
    substr left right replace translate concat concat_ws split startswith endswith contains position
    locate instr reverse repeat initcap format_number format_string hash xxhash64 md5 sha sha1 sha2
    crc32 ascii chr hex unhex regexp regexp_like regexp_extract regexp_replace year quarter month week
    day dayofmonth dayofweek dayofyear hour minute second date to_date timestamp to_timestamp date_add
    date_sub datediff date_diff add_months months_between last_day trunc date_trunc date_format extract
    make_date size cardinality array array_contains element_at get struct named_struct string int
    integer bigint double float decimal boolean smallint tinyint binary count sum min max avg mean
    count_if bool_and bool_or every current_date current_timestamp now
    """.split()  # noqa: SIM905 a list of 150 quoted words reads worse
)


_CLOCKS = frozenset(
    "CURRENT_DATE CURRENT_TIMESTAMP CURRENT_TIME LOCALTIMESTAMP NOW CURDATE UNIX_TIMESTAMP".split()  # noqa: SIM905
)

_MOMENTS = frozenset(("now", "today", "yesterday", "tomorrow"))


def judges_lastingly(*conditions: str | None) -> bool:
    """Whether conditions look at nothing but values, and not at the clock either: so later as well as now."""
    return judges_values(*conditions) and not any(map(_asks_clock, filter(None, conditions)))


def _asks_clock(condition: str) -> bool:
    """By a function, or by a literal such as DATE 'today'."""
    words = split_words(condition)
    return any(w.upper in _CLOCKS for w in words) or any(
        kind.upper.startswith(("DATE", "TIMESTAMP"))
        and text.kind is WordKind.STRING
        and text.text.strip().lower() in _MOMENTS
        for kind, text in pairwise(words)
    )


def judges_values(*conditions: str | None) -> bool:
    for condition in conditions:
        words = split_words(condition) if condition else ()
        for at, word in enumerate(words):
            names_columns = at > 0 and words[at - 1].upper == "AS"  # … AS s (a, b)
            opens = at + 1 < len(words) and words[at + 1].text == "(" and not names_columns
            if opens and (word.kind is WordKind.QUOTED or word.text.lower() not in _HARMLESS):
                return False
            if word.upper in ("_METADATA", "TABLESAMPLE", "LIMIT", "OFFSET"):
                return False
    return True
