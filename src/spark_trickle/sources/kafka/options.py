"""OPTIONS of a source of type kafka, and of the tables that follow its topics -> values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from spark_trickle.errors import InvalidDefinitionError, SourceAddressError
from spark_trickle.sources.options import name_members, option

_ENVIRONMENT = "env:"
_ANY_FORMAT = ""


class RecordFormat(StrEnum):
    JSON = "json"
    TEXT = "text"
    AVRO = "avro"
    DEBEZIUM = "debezium"


class Security(StrEnum):
    PLAINTEXT = "plaintext"
    SSL = "ssl"
    SASL_PLAINTEXT = "sasl_plaintext"
    SASL_SSL = "sasl_ssl"


class OnLoss(StrEnum):
    """What happens if records were deleted before they were read."""

    STOP = "stop"
    CONTINUE = "continue"


class KeyType(StrEnum):
    STRING = "string"
    BINARY = "binary"


class EpochUnit(StrEnum):
    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"


@dataclass(frozen=True)
class KafkaOptions:
    """Where the brokers are, how they are spoken to, and what the values of their records are."""

    servers: str = option("", "The brokers: `host:port`, separated by commas; or `env:NAME`.")
    format: RecordFormat = option(  # noqa: RUF009 a field
        RecordFormat.JSON, "What the values of records are.", name_members(RecordFormat)
    )
    registry: str = option("", "The address of the schema registry, for values in Avro.")
    registry_user: str = option("", "The user of the schema registry.")
    registry_password: str = option("", "`env:NAME`: the environment variable with its password.")
    max_records: str = option("100000", "How many records of a topic one sync reads; the next one goes on.")
    timeout_seconds: str = option("30", "How long the brokers may take to answer.")
    security: Security = option(  # noqa: RUF009 a field
        Security.PLAINTEXT, "The protocol for connecting to the brokers.", name_members(Security)
    )
    sasl_mechanism: str = option(
        "PLAIN", "The authentication mechanism: `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`."
    )
    sasl_username: str = option("", "The user.")
    sasl_password: str = option("", "`env:NAME`: the environment variable with the password.")
    ssl_ca: str = option("", "The file with trusted CA certificates.", is_path=True)
    ssl_certificate: str = option("", "The file with our certificate.", is_path=True)
    ssl_key: str = option("", "The file with our private key.", is_path=True)
    ssl_key_password: str = option("", "`env:NAME`: the environment variable with the password of that file.")

    @property
    def most(self) -> int:
        return read_number("max_records", self.max_records)

    @property
    def timeout(self) -> int:
        return read_number("timeout_seconds", self.timeout_seconds)


@dataclass(frozen=True)
class TopicOptions:
    """What is to be known of one topic."""

    schema: str = option("", "The columns of the values, as in `id BIGINT, name STRING`.")
    format: str = option(
        _ANY_FORMAT,
        "What the values of the topic are; otherwise the `format` of the source.",
        {f.value: f.value for f in RecordFormat},
    )
    key: KeyType = option(  # noqa: RUF009 a field
        KeyType.STRING, "The type of the column `_key`.", name_members(KeyType)
    )
    epoch: EpochUnit = option(  # noqa: RUF009 a field
        EpochUnit.MILLISECONDS, "The unit of timestamps that are numbers.", name_members(EpochUnit)
    )
    on_loss: OnLoss = option(  # noqa: RUF009 a field
        OnLoss.STOP,
        "What happens if records were deleted before they were read: the table stops until RESYNC TABLE, or"
        " it goes on with the first that is there, and the gap is noted among the rejects.",
        name_members(OnLoss),
    )


def check_options(name: str, options: KafkaOptions) -> None:
    """Refuse what cannot work, and secrets that would come into the catalog."""
    if not options.servers:
        raise InvalidDefinitionError(
            f'the source "{name}" needs its brokers', "Write OPTIONS (servers 'host:9092')."
        )
    _ = options.most, options.timeout
    for secret in ("sasl_password", "ssl_key_password", "registry_password"):
        value = getattr(options, secret)
        if value and not value.startswith(_ENVIRONMENT):
            raise SourceAddressError(
                f"the option {secret} contains a password",
                f"Put the password into an environment variable and write {secret} 'env:NAME'.",
            )
    if "@" in urlsplit(options.registry).netloc:
        raise SourceAddressError(
            "the address of the registry contains a password",
            "Write registry_user '…' and registry_password 'env:NAME'.",
        )
    if options.format is RecordFormat.AVRO and not options.registry:
        raise InvalidDefinitionError(
            f'the source "{name}" has values in Avro, and no schema registry',
            "Write registry 'http://host:8081'.",
        )


def read_secret(value: str, environment: Mapping[str, str]) -> str:
    """What an option stands for: the value of a variable, or itself."""
    if not value.startswith(_ENVIRONMENT):
        return value
    name = value.removeprefix(_ENVIRONMENT)
    if not environment.get(name):
        raise SourceAddressError(
            f'the environment variable "{name}" is not set', f"Set {name} where spark-trickle runs."
        )
    return environment[name]


def read_number(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise InvalidDefinitionError(
            f'"{text}" is not a value for the option "{name}"', "Write a whole number, at least 1."
        )
    return int(text)
