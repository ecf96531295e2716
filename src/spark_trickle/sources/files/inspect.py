"""Files -> the columns that their footers and headers tell of, or why they cannot be read."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs, orc

from spark_trickle.errors import SourceAddressError
from spark_trickle.lake.storage.addresses import open_address, require_storage
from spark_trickle.model.arriving import ArrivingFile, FileFormat
from spark_trickle.sources.interface import Inspected

_THREADS = 16
_HEADER = 1 << 20  # bytes in which the names of all columns are

_Inspect = Callable[[fs.FileSystem, str], tuple[str, tuple[str, ...]]]


def inspect_files(kind: FileFormat, files: Sequence[ArrivingFile]) -> tuple[Inspected, ...]:
    """What each file tells of itself without its rows being read."""
    inspect = _find_inspector(kind)
    if inspect is None or not files:
        return tuple(Inspected(f) for f in files)
    with ThreadPoolExecutor(min(_THREADS, len(files))) as pool:
        return tuple(pool.map(partial(_inspect_file, inspect), files))


def _find_inspector(kind: FileFormat) -> _Inspect | None:
    match kind.name:
        case "parquet":
            return _read_parquet_footer
        case "orc":
            return _read_orc_footer
        case "avro":
            return _read_nothing
        case "csv" if not kind.by_position:
            return partial(_read_header, dict(kind.options))
    return None


def _inspect_file(inspect: _Inspect, file: ArrivingFile) -> Inspected:
    if file.bytes == 0:
        return Inspected(file, problem="the file is empty")
    filesystem, path = open_address(file.address)
    try:
        layout, names = inspect(filesystem, path)
    except FileNotFoundError:
        return Inspected(file, is_gone=True)
    except (OSError, ValueError, pa.ArrowException, csv.Error) as error:
        if isinstance(error, OSError) and not isinstance(error, PermissionError):
            require_storage(error)
            _require_storage(filesystem, path, file)
        return Inspected(file, problem=str(error).splitlines()[0] if str(error) else type(error).__name__)
    if twins := [n for n, times in Counter(name.strip().lower() for name in names).items() if times > 1]:
        return Inspected(file, problem=f'there are two columns called "{twins[0]}"')
    return Inspected(file, layout, names)


def _require_storage(filesystem: fs.FileSystem, path: str, file: ArrivingFile) -> None:
    """What the storage refuses is not the fault of the file: its bytes cannot be had."""
    try:
        with filesystem.open_input_file(path) as source:
            source.read_at(min(file.bytes, _HEADER), 0)
    except OSError as error:
        raise SourceAddressError(
            f"the file {file.address} cannot be read: {error}",
            "Check the storage that holds it; the next sync tries again.",
        ) from None


def _read_parquet_footer(filesystem: fs.FileSystem, path: str) -> tuple[str, tuple[str, ...]]:
    """The layout is all by which Spark decides about types."""
    with filesystem.open_input_file(path) as source:
        footer = pq.read_metadata(source)
    notes = {k: v for k, v in (footer.metadata or {}).items() if k.startswith(b"org.apache.spark")}
    return f"{footer.schema}{sorted(notes.items())}", tuple(footer.schema.to_arrow_schema().names)


def _read_orc_footer(filesystem: fs.FileSystem, path: str) -> tuple[str, tuple[str, ...]]:
    with filesystem.open_input_file(path) as source:
        schema = orc.ORCFile(source).schema
    return str(schema), tuple(schema.names)


def _read_nothing(filesystem: fs.FileSystem, path: str) -> tuple[str, tuple[str, ...]]:
    return "", ()


def _read_header(
    options: dict[str, str], filesystem: fs.FileSystem, path: str
) -> tuple[str, tuple[str, ...]]:
    """The names in the first line that is not blank."""
    with filesystem.open_input_stream(path) as source:  # unpacked, as its name says
        text = source.read(_HEADER).decode(options.get("encoding", "UTF-8"), errors="replace")
    lines = text.removeprefix("\ufeff").splitlines()
    line = next((part for part in lines if part.strip()), "")
    rows = csv.reader([line], delimiter=options["sep"], quotechar=options["quote"])
    names = tuple(next(rows, []))
    if not names:
        raise ValueError("there is no line with the names of the columns")
    return "\0".join(names), names
