"""A catalog of Iceberg tables, through pyiceberg; what it raises becomes errors of ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

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
    OutsideFileError,
    SourceSetupError,
    TrickleError,
    UnsupportedError,
)
from spark_trickle.sources.iceberg.options import IcebergOptions, find_secrets, resolve_properties
from spark_trickle.sources.postgres.connect import first_line, scrub_secrets

_CHECK = "Check the options of the source, and that its catalog is running."


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
        with self.explain_errors("its tables"):
            namespaces = _list_namespaces(self._catalog, ())
            tables = [
                table for namespace in sorted(namespaces) for table in self._catalog.list_tables(namespace)
            ]
        return tuple(sorted({".".join(table) for table in tables}))

    def load_table(self, name: str) -> Table | None:
        """The table as it is now; None if there is none of that name."""
        with self.explain_errors(f'the table "{name}"'):
            try:
                return self._catalog.load_table(tuple(name.split(".")))
            except (NoSuchTableError, NoSuchNamespaceError):
                return None

    def close(self) -> None:
        if "_catalog" in self.__dict__:
            self._catalog.close()

    @contextmanager
    def explain_errors(self, what: str) -> Iterator[None]:
        try:
            yield
            return
        except TrickleError:
            raise
        except NotInstalledError as error:
            found: TrickleError = UnsupportedError(
                f"the catalog {self._options.catalog} as pyiceberg is installed here",
                f"{self._scrub(error)}: pip install 'pyiceberg[{self._options.catalog}]'.",
            )
        except (ValidationError, pydantic.ValidationError) as error:
            found = UnsupportedError(
                f"the metadata of {what} ({self._scrub(error)})",
                "Versions 1 to 3 of the table format can be read, as far as pyiceberg knows them.",
            )
        except FileNotFoundError as error:
            found = OutsideFileError("", self._scrub(error), f"is gone, which the metadata of {what} needs")
        except Exception as error:  # each catalog has errors of its own: of HTTP, of SQLAlchemy, of Thrift
            found = SourceSetupError(
                f'the catalog of the source "{self._name}" does not show {what}: {self._scrub(error)}', _CHECK
            )
        # Raised outside of the handler, so that no traceback leads back to the secrets.
        raise found

    def _scrub(self, error: Exception) -> str:
        return scrub_secrets(first_line(error), find_secrets(self._options, self._properties))


def _list_namespaces(catalog: Catalog, parent: tuple[str, ...]) -> set[tuple[str, ...]]:
    """Those in a namespace, and those in them; some catalogs list all, whatever they are asked for."""
    found: set[tuple[str, ...]] = set()
    for namespace in catalog.list_namespaces(parent):
        if len(namespace) > len(parent) and namespace not in found:
            found |= {namespace, *_list_namespaces(catalog, namespace)}
    return found
