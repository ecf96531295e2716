"""The address of a source -> a connection whose texts mean the same everywhere; secrets stay inside it."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from spark_trickle.errors import (
    SourceAddressError,
    SourceSetupError,
    SourceUnavailableError,
)


class Connection(psycopg.Connection[tuple[object, ...]]):
    """One of ours; `unread` are the rows of a query that are still on their way.

    `session` is the process of the server that has answered it, whoever stands in between.
    """

    unread: Generator[object, None, None] | None = None
    session: int = 0
    channel: str = ""  # that it listens to


OLDEST_VERSION = 140_000  # CREATE OR REPLACE TRIGGER

_SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
_ENVIRONMENT = "env:"

# A value is captured as the text that the server writes for it. These settings decide how it is written, so
# every connection has the same: the copy, the buffer and the log must give one row one image.
SESSION = {
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "search_path": "pg_catalog",  # names of types and tables are written with their schema
    "row_security": "off",  # a policy that hides rows is an error, not a smaller copy
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}


@dataclass(frozen=True)
class Address:
    """Where a source is, as the catalog may keep it: it says where the secrets are, and holds none."""

    dsn: str = ""
    service: str = ""
    passfile: str = ""

    def __post_init__(self) -> None:
        if not (self.dsn or self.service):
            raise SourceAddressError(
                "a PostgreSQL source needs an address",
                "Give dsn 'env:NAME', service '…', or dsn 'host=… dbname=… user=…' with passfile '…'.",
            )
        if not self.dsn.startswith(_ENVIRONMENT) and _find_secrets(_parse_parameters(self.dsn, "the dsn")):
            raise SourceAddressError(
                "the dsn contains a password",
                "Put the address into an environment variable and write dsn 'env:NAME', "
                "or keep the password in a passfile or a service file.",
            )


def resolve_address(address: Address, environment: Mapping[str, str]) -> dict[str, str]:
    """The parameters for libpq, secrets included: never print or keep them."""
    found = _parse_parameters(*_read_address(address, environment))
    extra = {"service": address.service, "passfile": address.passfile}
    return found | {name: value for name, value in extra.items() if value}


def _read_address(address: Address, environment: Mapping[str, str]) -> tuple[str, str]:
    if not address.dsn.startswith(_ENVIRONMENT):
        return address.dsn, "the dsn"
    name = address.dsn.removeprefix(_ENVIRONMENT)
    if not environment.get(name):
        raise SourceAddressError(
            f'the environment variable "{name}" is not set',
            f"Set {name} to the address of the database where spark-trickle runs.",
        )
    return environment[name], f'the environment variable "{name}"'


def _parse_parameters(text: str, where: str) -> dict[str, str]:
    try:
        return {name: str(value) for name, value in conninfo_to_dict(text).items()}
    except psycopg.Error:  # its text may quote a piece of the secret
        malformed = SourceAddressError(
            f"{where} is not a PostgreSQL address",
            "Write it as postgresql://user@host:5432/database or as host=… dbname=… user=….",
        )
    raise malformed


def _find_secrets(parameters: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(parameters[name] for name in _SECRETS if parameters.get(name))


def scrub_secrets(text: str, secrets: Iterable[str]) -> str:
    """A text of libpq or of the server without passwords, in whatever form they stand in it."""
    for secret in sorted(secrets, key=len, reverse=True):
        for form in (secret, quote(secret, safe=""), secret.replace("\\", "\\\\").replace("'", "\\'")):
            text = text.replace(form, "***")
    text = re.sub(r"(://[^:/@\s]*):[^@\s]*@", r"\1:***@", text)
    return re.sub(r"(?i)\b(\w*password|\w*secret)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&'\"]+)", r"\1=***", text)


def open_connection(address: Address, role: str, environment: Mapping[str, str] | None = None) -> Connection:
    """A connection in autocommit mode; `role` says in pg_stat_activity what we use it for."""
    parameters = resolve_address(address, os.environ if environment is None else environment)
    parameters["application_name"] = f"spark-trickle {role}"
    parameters["client_encoding"] = "utf8"
    connection = prepare_connection(_open_connection(parameters))
    if connection.session != connection.info.backend_pid:  # somebody in between has answered
        _require_own_session(connection, parameters)
    return connection


def _open_connection(parameters: Mapping[str, str]) -> Connection:
    try:
        return Connection.connect(**parameters, autocommit=True)  # type: ignore[arg-type]
    except psycopg.Error as error:
        detail = scrub_secrets(first_line(error), _find_secrets(parameters))
    # Raised outside of the handler, so that no traceback leads back to the parameters.
    raise SourceUnavailableError(detail)


def _require_own_session(connection: Connection, parameters: Mapping[str, str]) -> None:
    """Refuse a pooler that gives a session to another client as soon as a transaction has ended."""
    with _open_connection(parameters) as other:
        shared = _read_session(other) == connection.session
    if shared:
        connection.close()
        raise SourceSetupError(
            "the address belongs to a connection pooler that shares sessions between transactions",
            "Give the address of the server itself, or of a pool with pool_mode = session: "
            "capturing needs locks and settings that outlive a transaction.",
        )


def _read_session(connection: Connection) -> int:
    ((found, *_),) = connection.execute("SELECT pg_backend_pid()").fetchall()
    return int(str(found))


def prepare_connection(connection: Connection) -> Connection:
    """Make a fresh connection write values as we read them."""
    if connection.info.server_version < OLDEST_VERSION:
        found = connection.info.server_version // 10_000
        connection.close()
        raise SourceSetupError(
            f"the source runs PostgreSQL {found}, but capturing needs {OLDEST_VERSION // 10_000}",
            "Upgrade the PostgreSQL server of the source.",
        )
    settings = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in SESSION.items())
    ((session, *_),) = connection.execute(f"SELECT pg_backend_pid(), {settings}").fetchall()
    connection.session = int(str(session))
    connection.prepare_threshold = None  # statements are many and each is rare
    return connection


def find_secrets(connection: Connection) -> tuple[str, ...]:
    """What must not appear in a text about this connection, also when it is broken by now."""
    try:
        password = connection.pgconn.password.decode(errors="replace")
    except psycopg.Error:  # closed: libpq has forgotten it
        return ()
    return (password,) if password else ()


def first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
