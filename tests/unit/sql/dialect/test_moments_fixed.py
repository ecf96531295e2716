"""The clock stands still in the text of a query; whatever else has its name is left alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from spark_trickle.sql.dialect.moments import fix_moment

MOMENT = datetime(2024, 2, 29, 23, 59, 58, 7, UTC)
AT = "TIMESTAMP '2024-02-29 23:59:58.000007+00:00'"
OTHERS = "'now()', `now`, t.current_date, x AS current_date, 'today', current_user(), unix_timestamp(x)"


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("SELECT now(), NOW ( )", f"SELECT {AT}, {AT}"),
        ("current_date", f"CAST({AT} AS DATE)"),
        ("curdate() + 1", f"CAST({AT} AS DATE) + 1"),
        ("localtimestamp()", f"CAST({AT} AS TIMESTAMP_NTZ)"),
        ("unix_timestamp()", f"unix_timestamp({AT})"),
        ("CAST('today' AS DATE)", f"CAST(date_trunc('DAY', {AT}) AS DATE)"),
        ("date('tomorrow')", f"date(date_trunc('DAY', {AT}) + INTERVAL '1' DAY)"),
        (OTHERS, OTHERS),
    ],
)
def test_fixed(text: str, fixed: str) -> None:
    assert fix_moment(text, MOMENT) == fixed
