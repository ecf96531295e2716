"""OPTIONS of an Iceberg source: secrets are named, and never written down."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_trickle.errors import TrickleError
from spark_trickle.sources.iceberg.options import IcebergOptions, find_secrets, resolve_properties
from spark_trickle.sources.options import parse_options, settle_paths

SECRETS = [
    {"token": "abc"},
    {"credential": "me:secret"},
    {"uri": "postgresql://joe:pw@host/db"},
    {"properties": "s3.region=x, s3.secret-access-key=abc"},
    {"properties": "header.X-Api-Token=abc"},
    {"properties": "s3.session-token=abc"},
    {"properties": "oauth2-server-uri=https://joe:pw@host"},
    {"properties": "adls.account-key=abc"},
]


@pytest.mark.parametrize("given", SECRETS)
def test_a_secret_that_is_written_down_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(TrickleError, match="contains a secret") as caught:
        parse_options(IcebergOptions, {"catalog": "rest", **given})
    assert "env:NAME" in caught.value.hint
    assert not any(word in str(caught.value) for word in ("abc", "pw", "me:secret"))


def test_secrets_come_from_the_environment() -> None:
    text = "s3.region=eu, s3.secret-access-key=env:KEY"
    options = IcebergOptions("rest", uri="https://c", token="env:TOKEN", properties=text)
    found = resolve_properties(options, {"TOKEN": "t", "KEY": "k"})
    assert found == {
        "type": "rest",
        "uri": "https://c",
        "token": "t",
        "s3.region": "eu",
        "s3.secret-access-key": "k",
    }
    assert sorted(find_secrets(options, found)) == ["k", "t"]
    with pytest.raises(TrickleError, match='the environment variable "KEY" is not set'):
        resolve_properties(options, {"TOKEN": "t"})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "needs the kind of its catalog"),
        ({"catalog": "nessie"}, '"nessie" is not a value'),
        ({"catalog": "rest", "properties": "s3.region"}, "not a list of name=value"),
    ],
)
def test_what_is_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(TrickleError, match=words):
        parse_options(IcebergOptions, given)


@pytest.mark.parametrize(
    ("uri", "kept"),
    [
        ("sqlite:///lake/c.db", "sqlite:///{here}/lake/c.db"),
        ("sqlite:////lake/c.db", "sqlite:////lake/c.db"),
        ("env:URI", "env:URI"),
        ("https://host/path", "https://host/path"),
    ],
)
def test_a_file_means_the_same_from_everywhere(uri: str, kept: str) -> None:
    assert settle_paths(IcebergOptions, {"uri": uri}) == {"uri": kept.format(here=Path.cwd())}
