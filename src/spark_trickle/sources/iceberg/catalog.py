"""A catalog of Iceberg tables, through pyiceberg; what it raises becomes errors of ours."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

import pydantic
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    NoSuchNamespaceError,
    NoSuchTableError,
    NotInstalledError,
    ValidationError,
)
from pyiceberg.table import Table

from spark_trickle.errors import (
    SourceAddressError,
    SourceSetupError,
    TrickleError,
    UnsupportedError,
)
from spark_trickle.sources.iceberg.options import IcebergOptions, find_secrets, resolve_properties
from spark_trickle.sources.postgres.connect import first_line, scrub_secrets

T = TypeVar("T")


class IcebergCatalog:
    """One catalog; a connection is opened with the first question."""

    def __init__(self, name: str, options: IcebergOptions) -> None:
        self._name, self._options = name, options
        self._properties = resolve_properties(options, os.environ)

    @cached_property
    def _catalog(self) -> Catalog:
        return load_catalog(self._options.catalog_name or self._name, **self._properties)

    def list_tables(self) -> tuple[str, ...]:
        """All tables of all namespaces, as namespace.table."""
        return self.ask("its tables", self._list_tables)

    def load_table(self, name: str) -> Table | None:
        """The table as it is now; None if there is none of that name."""
        return self.ask(f'the table "{name}"', lambda: self._load_table(name))

    def close(self) -> None:
        if "_catalog" in self.__dict__:
            self._catalog.close()

    def ask(self, what: str, action: Callable[[], T], refusal: str = "does not show") -> T:
        """The answer of the catalog, or of files it leads to; `refusal` is what it does if there is none."""
        try:
            return action()
        except TrickleError:
            raise
        except Exception as error:  # each catalog has errors of its own: of HTTP, of SQLAlchemy, of Thrift
            found = self._explain_error(what, error, refusal)
        # Raised outside of the handler, so that no traceback leads back to the secrets.
        raise found

    def _explain_error(self, what: str, error: Exception, refusal: str) -> TrickleError:
        detail = scrub_secrets(_first_words(error), find_secrets(self._options, self._properties))
        match error:
            case NotInstalledError():
                kind = self._options.catalog
                return SourceSetupError(
                    f"what an Iceberg catalog of type {kind} needs is not installed ({detail})",
                    f"Install it: pip install 'pyiceberg[{kind}]'.",
                )
            case ValidationError() | pydantic.ValidationError():
                return UnsupportedError(
                    f"the metadata of {what} ({detail})",
                    "Tables of the versions 1 to 3 can be read, as far as pyiceberg knows them.",
                )
            case FileNotFoundError():
                return SourceAddressError(
                    f"metadata of {what} are gone: {detail}",
                    "Run SYNC SOURCE to go on from the newest snapshot.",
                )
        return SourceSetupError(
            f'the catalog of the source "{self._name}" {refusal} {what}: {detail}',
            "Check the options of the source, and that its catalog is running.",
        )

    def _list_tables(self) -> tuple[str, ...]:
        namespaces = _list_namespaces(self._catalog, ())
        if not namespaces:  # an SQL catalog of another name looks like that
            raise SourceSetupError(
                f'the catalog of the source "{self._name}" has no namespace',
                "Check its uri and its catalog_name, or create a namespace there first.",
            )
        tables = [table for namespace in sorted(namespaces) for table in self._catalog.list_tables(namespace)]
        return tuple(sorted({".".join(table) for table in tables}))

    def _load_table(self, name: str) -> Table | None:
        try:
            return self._catalog.load_table(tuple(name.split(".")))
        except (NoSuchTableError, NoSuchNamespaceError):
            return None


def _first_words(error: Exception) -> str:
    """pyiceberg puts the first line of what pydantic found into an error of its own."""
    for found in (error, error.__cause__):
        if isinstance(found, pydantic.ValidationError):
            return "; ".join(e["msg"] for e in found.errors(include_url=False, include_input=False))
    return first_line(error)


def _list_namespaces(catalog: Catalog, parent: tuple[str, ...]) -> set[tuple[str, ...]]:
    """Those in a namespace, and those in them; some catalogs list all, whatever they are asked for.

    One may have been dropped meanwhile, and pyiceberg asks REST catalogs in a way that is misunderstood for
    those in a namespace whose name has spaces or letters with accents: its own tables are found all the same.
    """
    found: set[tuple[str, ...]] = set()
    try:
        listed = catalog.list_namespaces(parent)
    except NoSuchNamespaceError:
        return found
    for namespace in listed:
        if len(namespace) > len(parent) and namespace not in found:
            found |= {namespace, *_list_namespaces(catalog, namespace)}
    return found
