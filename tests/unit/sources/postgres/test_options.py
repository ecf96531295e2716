"""OPTIONS of ATTACH SOURCE: texts that users write become values."""

from __future__ import annotations

import pytest

from spark_trickle.errors import TrickleError
from spark_trickle.sources.postgres.options import CdcMode, CopyWay, PostgresOptions, ResyncWay, read_options

DSN = {"dsn": "env:SHOP"}
READ = [
    ({}, PostgresOptions("env:SHOP")),
    (
        {"cdc_mode": "WAL", "copy": "Jdbc"},
        PostgresOptions("env:SHOP", cdc_mode=CdcMode.WAL, copy=CopyWay.JDBC),
    ),
    ({"unlogged": "TRUE", "guarded": "false"}, PostgresOptions("env:SHOP", unlogged=True, guarded=False)),
    (
        {"notify": "true", "resync": "manual"},
        PostgresOptions("env:SHOP", notify=True, resync=ResyncWay.MANUAL),
    ),
    ({"capture": "row", "schema": "Own"}, PostgresOptions("env:SHOP", capture="row", schema="Own")),
]


@pytest.mark.parametrize(("given", "options"), READ)
def test_texts_become_values(given: dict[str, str], options: PostgresOptions) -> None:
    assert read_options({**DSN, **given}) == options


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"notify": "yes"}, '"yes" is not a value for the option "notify"'),
        ({"cdc_mode": "²"}, '"²" is not a value for the option "cdc_mode"'),
        ({"cdc_modus": "wal"}, 'no option "cdc_modus"'),
        ({"capture": ""}, '"" is not a value for the option "capture"'),
    ],
)
def test_what_is_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(TrickleError, match=words):
        read_options({**DSN, **given})
