"""A catalog of Iceberg tables that takes commits; what it raises becomes errors of ours."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from spark_trickle.errors import InvalidDefinitionError, SourceBusyError
from spark_trickle.sources.iceberg.catalog import IcebergCatalog
from spark_trickle.targets.iceberg.commit import PreparedCommit, delete_old_metadata


class WritableCatalog(IcebergCatalog):
    """What publishing needs beyond reading."""

    def create_table(self, name: str, schema: Schema, properties: Mapping[str, str]) -> bool:
        """Make a table, and its namespace; False if the table is there."""
        folder = self._options.warehouse
        if self._options.catalog == "sql" and folder and "://" not in folder and not folder.startswith("/"):
            raise InvalidDefinitionError(
                f'the warehouse "{folder}" of the source "{self._name}" is a relative path',
                "Attach the source with warehouse 'file:///…' or 's3://…': readers are in other folders.",
            )
        return self.ask(
            f'the table "{name}"', lambda: self._create_table(name, schema, properties), "does not create"
        )

    def _create_table(self, name: str, schema: Schema, properties: Mapping[str, str]) -> bool:
        parts = tuple(name.split("."))
        for level in range(1, len(parts)):
            _make_namespace(self._catalog, parts[:level], is_last=level == len(parts) - 1)
        try:
            self._catalog.create_table(parts, schema, properties=dict(properties))
        except TableAlreadyExistsError:
            return False
        return True

    def drop_table(self, name: str) -> None:
        self.ask(f'the table "{name}"', lambda: self._drop_table(name), "does not drop")

    def _drop_table(self, name: str) -> None:
        with suppress(NoSuchTableError):
            self._catalog.purge_table(tuple(name.split(".")))

    def commit(self, table: Table, prepared: PreparedCommit) -> None:
        """All or nothing, if nobody else has committed since the table was loaded.

        pyiceberg's own transactions would try again on top of what another process committed meanwhile, which
        may be the very same step.
        """
        name = ".".join(table.name())
        self.ask(f'the table "{name}"', lambda: self._commit(name, table, prepared), "takes no commit for")

    def _commit(self, name: str, table: Table, prepared: PreparedCommit) -> None:
        try:
            done = self._catalog.commit_table(table, prepared.requirements, prepared.updates)
        except CommitFailedException:
            prepared.undo()
            raise SourceBusyError(
                f'the Iceberg table "{name}" refuses the commit: another process was faster',
                "Try again: what it committed is looked at first.",
            ) from None
        delete_old_metadata(table, done.metadata)


def _make_namespace(catalog: Catalog, name: tuple[str, ...], is_last: bool) -> None:
    """Some catalogs have only namespaces of one level that may contain dots, others need each level."""
    try:
        if not catalog.namespace_exists(name):
            catalog.create_namespace(name)
    except NamespaceAlreadyExistsError:
        pass
    except Exception:
        if is_last:
            raise
