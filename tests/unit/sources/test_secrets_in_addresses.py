"""An address with a secret in it does not get into the catalog."""

from __future__ import annotations

import pytest

from spark_trickle.sources.options import holds_secret

SECRET = [
    "s3://KEY:secret@bucket/path",
    "s3a://KEY:secret/with/slashes@bucket/path",
    "s3://KEY:secret",
    "gs://user:secret@bucket/x",
    "https://ada:secret@host:8181/catalog",
    "abfss://c@account.dfs.core.windows.net/x?sv=2024&sig=abc",
    "s3://bucket/x?secret_key=abc",
]
PLAIN = [
    "s3://bucket/path",
    "s3://bucket/a:b@c/*.json?",
    "abfss://container@account.dfs.core.windows.net/path",
    "hdfs://user@host:8020/path",
    "/data/a:b@c",
    "s3://bucket/keys=1/part?.json",
    "thrift://host:9083",
    "sqlite:////lake/catalog.db",
]


@pytest.mark.parametrize("address", SECRET)
def test_secrets(address: str) -> None:
    assert holds_secret(address)


@pytest.mark.parametrize("address", PLAIN)
def test_no_secrets(address: str) -> None:
    assert not holds_secret(address)
