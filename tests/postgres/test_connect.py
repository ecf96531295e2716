"""Addresses of sources: where the secrets are, and that they never come out."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

import psycopg
import pytest

from spark_trickle.errors import (
    InternalError,
    SourceAddressError,
    SourceSetupError,
    SourceUnavailableError,
    TrickleError,
)
from spark_trickle.sources.postgres.connect import Address, open_connection, resolve_address, scrub_secrets
from spark_trickle.sources.postgres.run import (
    begin_transaction,
    copy_out,
    explain_error,
    read_rows,
    run_statements,
    sql,
    stream_rows,
    translate_errors,
)
from tests.postgres.pooler import pooled
from tests.postgres.world import World

PASSWORD = "hunter" + "2"
SECRET = "s3cr t'%\\\"@:/?é"
ENCODED = "s3cr%20t%27%25%5C%22%40%3A%2F%3F%C3%A9"

WITH_SECRET = [
    f"postgresql://user:{ENCODED}@host/db",
    f"postgresql://user@host/db?password={ENCODED}",
    "host=h user=u password=hunter2",
    "host=h sslpassword=hunter2",
    "host=h oauth_client_secret=hunter2",
]


@pytest.mark.parametrize("dsn", WITH_SECRET)
def test_a_secret_in_a_dsn_is_refused_without_repeating_it(dsn: str) -> None:
    with pytest.raises(SourceAddressError) as caught:
        Address(dsn)
    shown = "".join(traceback.format_exception(caught.value))
    assert PASSWORD not in shown
    assert ENCODED not in shown
    assert "env:NAME" in caught.value.hint


REFUSED = [
    ("", "a PostgreSQL source needs an address"),
    ("host=h pass word=1", "the dsn is not a PostgreSQL address"),
    ("postgresql://u@h/d?nonsense=1", "the dsn is not a PostgreSQL address"),
]


@pytest.mark.parametrize(("dsn", "message"), REFUSED)
def test_refused(dsn: str, message: str) -> None:
    with pytest.raises(SourceAddressError) as caught:
        Address(dsn)
    assert caught.value.message == message


RESOLVED = [
    (Address("env:SHOP"), {"host": "h", "dbname": "d", "password": "hunter2"}),
    (Address(service="shop"), {"service": "shop"}),
    (Address("host=h", passfile="/p"), {"host": "h", "passfile": "/p"}),
    (Address("postgresql://u:@h/d"), {"user": "u", "host": "h", "dbname": "d", "password": ""}),
]


@pytest.mark.parametrize(("address", "expected"), RESOLVED)
def test_resolved(address: Address, expected: dict[str, str]) -> None:
    found = resolve_address(address, {"SHOP": "host=h dbname=d password=hunter2"})
    assert found == {k: v for k, v in expected.items() if v or k in found}
    assert PASSWORD not in repr(address)


@pytest.mark.parametrize("value", [None, ""])
def test_a_variable_that_is_not_set(value: str | None) -> None:
    with pytest.raises(SourceAddressError, match='environment variable "SHOP" is not set'):
        resolve_address(Address("env:SHOP"), {} if value is None else {"SHOP": value})


def test_a_malformed_variable_is_not_repeated() -> None:
    with pytest.raises(SourceAddressError) as caught:
        resolve_address(Address("env:SHOP"), {"SHOP": f"host=h {PASSWORD}"})
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


SCRUBBED = [
    (f"for postgresql://u:{ENCODED}@h/d!", "for postgresql://u:***@h/d!"),
    (f"password={SECRET} rest", "password=*** rest"),
    ("password = 'with \\' quote' host=h", "password=*** host=h"),
    ("PGPASSWORD=abc sslpassword='x y'", "PGPASSWORD=*** sslpassword=***"),
    ('connection to server at "h", port 5432 failed', 'connection to server at "h", port 5432 failed'),
]


@pytest.mark.parametrize(("text", "expected"), SCRUBBED)
def test_scrubbed(text: str, expected: str) -> None:
    assert scrub_secrets(text, [SECRET]) == expected


def test_ways_to_a_password(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run(
        "DROP ROLE IF EXISTS with_password",
        psycopg.sql.SQL("CREATE ROLE with_password LOGIN PASSWORD {}").format(SECRET),
    )
    plain = world.server.conninfo(world.database, "with_password")
    passfile = tmp_path / "pass"
    escaped = SECRET.replace("\\", "\\\\").replace(":", "\\:")
    passfile.write_text(f"*:*:*:with_password:{escaped}\n")
    passfile.chmod(0o600)
    services = tmp_path / "services"
    services.write_text(f"[shop]\nhost={world.server.home}\ndbname={world.database}\nuser=with_password\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    secret = psycopg.conninfo.make_conninfo(plain, password=SECRET)
    for address, environment in [
        (Address("env:SHOP"), {"SHOP": secret}),
        (Address(plain, passfile=str(passfile)), {}),
        (Address(service="shop", passfile=str(passfile)), {}),
    ]:
        with open_connection(address, "test", environment) as connection:
            assert read_rows(connection, sql.SQL("SELECT session_user::text")) == [("with_password",)]


def test_a_wrong_password_stays_secret(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    world.run("DROP ROLE IF EXISTS with_password", "CREATE ROLE with_password LOGIN PASSWORD 'right'")
    address = world.server.conninfo(world.database, "with_password") + f" password={PASSWORD}"
    with pytest.raises(SourceUnavailableError) as caught:
        open_connection(Address("env:SHOP"), "test", {"SHOP": address})
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + caplog.text
    assert "password authentication failed" in shown
    assert PASSWORD not in shown
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert caught.value.retryable


def test_errors_of_the_server_do_not_repeat_the_password(world: World) -> None:
    world.run("DROP ROLE IF EXISTS with_password", f"CREATE ROLE with_password LOGIN PASSWORD '{PASSWORD}'")
    address = world.server.conninfo(world.database, "with_password") + f" password={PASSWORD}"
    with open_connection(Address("env:SHOP"), "test", {"SHOP": address}) as connection:
        with pytest.raises(TrickleError) as caught:
            read_rows(connection, sql.SQL(f"SELECT '{PASSWORD}'::int"))
        assert PASSWORD not in "".join(traceback.format_exception(caught.value))
        assert "***" in caught.value.message
    with pytest.raises(SourceUnavailableError):
        read_rows(connection, sql.SQL("SELECT 1"))  # closed by now


def test_connections_say_what_they_are_for(world: World) -> None:
    connection = world.connect("poll")
    assert read_rows(connection, sql.SQL("SELECT current_setting('application_name')")) == [
        ("spark-trickle poll",)
    ]


def test_settings_of_the_server_do_not_change_texts(world: World) -> None:
    query = "SELECT '2024-02-03 04:05:06+00'::timestamptz::text, '\\xff'::bytea::text, (1/3.0)::float8::text, '1 mon -1 s'::interval::text"
    ours = read_rows(world.connect(), sql.SQL(query))
    assert ours == [("2024-02-03 04:05:06+00", "\\xff", "0.3333333333333333", "1 mon -00:00:01")]
    assert world.rows(query) != ours


def test_old_servers_are_refused(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    monkeypatch.setattr("spark_trickle.sources.postgres.connect.OLDEST_VERSION", 990_000)
    with pytest.raises(SourceSetupError, match="capturing needs 99"):
        world.connect()


def test_a_killed_connection_is_unavailable(world: World) -> None:
    connection = world.connect()
    pid = connection.info.backend_pid
    world.run(f"SELECT pg_terminate_backend({pid}, 5000)")
    with pytest.raises(SourceUnavailableError):
        read_rows(connection, sql.SQL("SELECT 1"))


EXPLAINED = [
    (psycopg.errors.LockNotAvailable("x"), "SOURCE_BUSY"),
    (psycopg.errors.DeadlockDetected("x"), "SOURCE_BUSY"),
    (psycopg.errors.ObjectInUse("x"), "SOURCE_BUSY"),
    (psycopg.errors.InsufficientPrivilege("x"), "SOURCE_SETUP"),
    (psycopg.errors.ConfigurationLimitExceeded("x"), "SOURCE_SETUP"),
    (psycopg.errors.AdminShutdown("x"), "SOURCE_UNAVAILABLE"),
    (psycopg.InterfaceError("x"), "SOURCE_UNAVAILABLE"),
    (psycopg.errors.SyntaxError("x"), "INTERNAL_ERROR"),
    (psycopg.errors.SyntaxError(""), "INTERNAL_ERROR"),
]


@pytest.mark.parametrize(("error", "code"), EXPLAINED)
def test_explained(error: psycopg.Error, code: str) -> None:
    assert explain_error(error, ()).code == code


def test_our_own_errors_pass_unchanged(world: World) -> None:
    ours = SourceSetupError("x", "Y.")
    with pytest.raises(SourceSetupError) as caught, translate_errors(world.connect()):
        raise ours
    assert caught.value is ours


# --- one thing at a time -------------------------------------------------------------------------


def test_rows_have_to_be_read_to_the_end(world: World) -> None:
    """Else a reading could be committed of which a part was never seen."""
    connection = world.connect()
    many = sql.SQL("SELECT g FROM generate_series(1, 100000) AS g")
    for start in (copy_out, stream_rows):
        with pytest.raises(InternalError, match="left unread"), begin_transaction(connection):  # noqa: PT012
            found = start(connection, many)
            next(found)
        with pytest.raises(ZeroDivisionError), begin_transaction(connection):  # noqa: PT012
            found = start(connection, many)
            next(found)
            _ = 1 / 0
        with begin_transaction(connection):
            assert len(list(start(connection, many))) == 100_000
        assert read_rows(connection, sql.SQL("SELECT 1")) == [(1,)]


def test_a_statement_in_the_middle_of_rows_is_an_error(world: World) -> None:
    connection = world.connect()
    found = copy_out(connection, sql.SQL("SELECT g FROM generate_series(1, 100000) AS g"))
    next(found)
    for act in (
        lambda: read_rows(connection, sql.SQL("SELECT 1")),
        lambda: run_statements(connection, sql.SQL("SELECT 1")),
        lambda: next(stream_rows(connection, sql.SQL("SELECT 1"))),
        lambda: begin_transaction(connection).__enter__(),
    ):
        with pytest.raises(InternalError, match="are unread"):
            act()
    assert len(list(found)) == 99_999
    assert read_rows(connection, sql.SQL("SELECT 1")) == [(1,)]


def test_an_error_in_the_middle_of_rows(world: World) -> None:
    connection = world.connect()
    query = sql.SQL("SELECT 1 / (50000 - g) FROM generate_series(1, 100000) AS g")
    for start in (copy_out, stream_rows):
        with pytest.raises(InternalError, match="division by zero"):
            list(start(connection, query))
        assert read_rows(connection, sql.SQL("SELECT 1")) == [(1,)]


# --- poolers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [True, False])
def test_a_pooler_must_leave_us_our_session(world: World, shared: bool) -> None:
    """A pool by transaction is refused with the way out; one by session is as good as the server."""
    with pooled(world.server.home, shared) as port:
        address = Address(f"host=127.0.0.1 port={port} dbname=postgres user=postgres sslmode=disable")
        if shared:
            with pytest.raises(SourceSetupError, match="connection pooler") as caught:
                open_connection(address, "test")
            assert "pool_mode = session" in caught.value.hint
        else:
            with open_connection(address, "test") as connection:
                assert read_rows(connection, sql.SQL("SELECT 1")) == [(1,)]
