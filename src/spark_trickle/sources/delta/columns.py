"""The schema of a Delta table -> its columns, by the names that its files have for them."""

from __future__ import annotations

from typing import Any

from spark_trickle.errors import UnsupportedError
from spark_trickle.model.types import refuse_collations
from spark_trickle.sources.delta.actions import TableMetadata
from spark_trickle.sources.interface import RemoteColumn, RemoteTable

_PHYSICAL = "delta.columnMapping.physicalName"
# As partitions are written, these say not exactly enough what they mean.
_UNCERTAIN = ("timestamp", "binary")


def describe_table(name: str, metadata: TableMetadata) -> RemoteTable:
    fields = metadata.schema["fields"]
    for column in fields:
        refuse_collations(column["name"], column.get("metadata") or {})
        if column["name"] in metadata.partitioned_by and column["type"] in _UNCERTAIN:
            raise UnsupportedError(
                f'a Delta table ("{name}") that is partitioned by a {column["type"]} ("{column["name"]}")',
                "Partition it by a date, a number or a text.",
            )
    return RemoteTable(name, tuple(_describe_column(column) for column in fields))


def _describe_column(column: dict[str, Any]) -> RemoteColumn:
    physical = find_physical_name(column)
    lasting = physical if _PHYSICAL in (column.get("metadata") or {}) else ""
    kind = column["type"]
    written = _rename_fields(kind)
    return RemoteColumn(column["name"], kind, lasting, physical, None if written == kind else written)


def find_physical_name(column: dict[str, Any]) -> str:
    """The name that files and the log have for a column."""
    return str((column.get("metadata") or {}).get(_PHYSICAL, column["name"]))


def _rename_fields(kind: Any) -> Any:
    """A type with the names of the files for the fields of its structs."""
    if isinstance(kind, str):
        return kind
    match kind["type"]:
        case "array":
            return {**kind, "elementType": _rename_fields(kind["elementType"])}
        case "struct":
            fields = [
                {**f, "name": find_physical_name(f), "type": _rename_fields(f["type"])}
                for f in kind["fields"]
            ]
            return {**kind, "fields": fields}
    return kind
