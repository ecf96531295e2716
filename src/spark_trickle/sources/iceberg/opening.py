"""ATTACH SOURCE … TYPE iceberg -> a source, if pyiceberg is there."""

from __future__ import annotations

from spark_trickle.errors import SourceSetupError
from spark_trickle.sources.iceberg.options import IcebergOptions
from spark_trickle.sources.interface import Capabilities, SourceReader

CAPABILITIES = Capabilities(in_place=True, can_be_empty=True)


def open_iceberg(name: str, options: IcebergOptions) -> SourceReader:
    try:
        from spark_trickle.sources.iceberg.source import IcebergSource
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyiceberg":
            raise
        raise SourceSetupError(
            "a source of type iceberg needs the library pyiceberg, which is not installed",
            "Install it: pip install 'spark-trickle[iceberg]'.",
        ) from None
    return IcebergSource(name, options)
