"""PUBLISH … TO SOURCE, of type iceberg -> the published table, if pyiceberg is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from spark_trickle.errors import UnsupportedError
from spark_trickle.sources.iceberg.options import IcebergOptions
from spark_trickle.sources.link import Links
from spark_trickle.sources.options import parse_options
from spark_trickle.targets.interface import Publication, TargetTable
from spark_trickle.targets.lake import LakeTarget


@dataclass(frozen=True)
class IcebergTargetOptions:
    """There are none."""


@contextmanager
def open_iceberg_table(
    publication: Publication, _options: IcebergTargetOptions, _links: Links, _role: str
) -> Iterator[TargetTable]:
    try:
        from spark_trickle.targets.iceberg.catalog import WritableCatalog
        from spark_trickle.targets.iceberg.table import IcebergTarget
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyiceberg":
            raise
        raise UnsupportedError(
            "publishing to a source of type iceberg without the library pyiceberg",
            "Install it: pip install 'spark-trickle[iceberg]'.",
        ) from None
    attached = publication.attached
    options = parse_options(IcebergOptions, dict(attached.options), "a source of type iceberg")
    catalog = WritableCatalog(attached.name, options)
    try:
        yield LakeTarget(IcebergTarget(catalog, publication))
    finally:
        catalog.close()
