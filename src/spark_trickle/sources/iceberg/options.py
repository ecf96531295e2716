"""The options of an Iceberg source -> the properties of its catalog; secrets come from the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from spark_trickle.errors import InvalidDefinitionError, SourceAddressError
from spark_trickle.sources.options import holds_secret, option

_ENVIRONMENT = "env:"
_SECRET = re.compile(
    "token|credential|secret|password|authorization|connection-string|(access|account|private)-key",
    re.IGNORECASE,
)
_HINT = "Put it into an environment variable NAME and write {0} 'env:NAME'."


@dataclass(frozen=True)
class IcebergOptions:
    """Where the catalog is; it says where the secrets are, and holds none."""

    catalog: str = option(
        "",
        "What keeps track of the tables.",
        {kind: kind for kind in ("rest", "sql", "hive", "glue")},
    )
    catalog_name: str = option(
        "",
        "The name that an SQL catalog notes beside each table; that of the source if not given.",
    )
    uri: str = option("", "The address of the catalog, without a password, or `env:NAME`.", is_path=True)
    warehouse: str = option("", "The folder or the name of the Iceberg warehouse, if its catalog needs one.")
    token: str = option("", "`env:NAME`: the environment variable that holds the token for a REST catalog.")
    credential: str = option(
        "", "`env:NAME`: the environment variable that holds `client:secret` for a REST catalog."
    )
    properties: str = option(
        "",
        "More properties of pyiceberg, as `name=value` separated by commas; `name=env:NAME` for secrets.",
    )

    def __post_init__(self) -> None:
        if not self.catalog:
            raise InvalidDefinitionError(
                "an Iceberg source needs the kind of its catalog",
                "Write OPTIONS (catalog 'rest', uri 'https://…'); there are rest, sql, hive and glue.",
            )
        for name, value in self.list_properties().items():
            if not value.startswith(_ENVIRONMENT) and (_SECRET.search(name) or _holds_password(value)):
                raise SourceAddressError(f'the option "{name}" contains a secret', _HINT.format(name))

    def list_properties(self) -> dict[str, str]:
        """As they are written down: secrets are still the names of variables."""
        own = {
            "type": self.catalog,
            "uri": self.uri,
            "warehouse": self.warehouse,
            "token": self.token,
            "credential": self.credential,
        }
        return {name: value for name, value in (own | _parse_properties(self.properties)).items() if value}


def resolve_properties(options: IcebergOptions, environment: Mapping[str, str]) -> dict[str, str]:
    """What pyiceberg is given, secrets included: never print or keep it."""
    found = {}
    for name, value in options.list_properties().items():
        if value.startswith(_ENVIRONMENT):
            variable = value.removeprefix(_ENVIRONMENT)
            if not environment.get(variable):
                raise SourceAddressError(
                    f'the environment variable "{variable}" is not set',
                    f'Set {variable} to the value of the option "{name}" where spark-trickle runs.',
                )
            value = environment[variable]
        found[name] = value
    if endpoint := environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL"):
        found.setdefault("s3.endpoint", endpoint)  # of the environment, pyiceberg takes only the key
    return found


def find_secrets(options: IcebergOptions, properties: Mapping[str, str]) -> tuple[str, ...]:
    """Values that must not appear in a message."""
    written = options.list_properties()
    return tuple(properties[name] for name, value in written.items() if value.startswith(_ENVIRONMENT))


def _parse_properties(text: str) -> dict[str, str]:
    found = {}
    for part in (p.strip() for p in text.split(",") if p.strip()):
        name, equals, value = part.partition("=")
        if not (equals and name.strip() and value.strip()):
            raise InvalidDefinitionError(
                'the option "properties" is not a list of name=value',
                "Write properties 's3.region=eu-west-1, s3.secret-access-key=env:NAME'.",
            )
        found[name.strip()] = value.strip()
    return found


def _holds_password(value: str) -> bool:
    try:
        return holds_secret(value) or urlsplit(value).password is not None
    except ValueError:  # no address at all
        return False
