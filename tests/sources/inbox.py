"""A folder that an application puts files into, and what a table over it has to hold by then."""

from __future__ import annotations

import csv
import io
import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from spark_trickle.session import Trickle

SCHEMA = "id BIGINT, name STRING"
Record = tuple[Any, ...]


def to_json(records: Iterable[Record]) -> bytes:
    return b"".join(json.dumps({"id": r[0], "name": r[1]}).encode() + b"\n" for r in records)


def to_csv(records: Iterable[Record]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["id", "name"])
    writer.writerows(["" if v is None else v for v in r] for r in records)
    return text.getvalue().encode()


def to_arrow(records: Iterable[Record]) -> pa.Table:
    listed = list(records)
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    return pa.table([[r[0] for r in listed], [r[1] for r in listed]], schema=schema)


def to_parquet(records: Iterable[Record]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(to_arrow(records), sink)
    return bytes(sink.getvalue())


def to_orc(records: Iterable[Record]) -> bytes:
    sink = pa.BufferOutputStream()
    orc.write_table(to_arrow(records), sink)
    return bytes(sink.getvalue())


WRITERS = {"json": to_json, "csv": to_csv, "parquet": to_parquet, "orc": to_orc}


@dataclass
class Inbox:
    """Each write has a time of its own, a second after the one before: tests wait for no clock."""

    path: Path
    clock: int = 1_700_000_000
    files: dict[str, list[Record]] = field(default_factory=dict)

    def put(self, name: str, content: bytes, at: int | None = None) -> Path:
        """A file as a whole, under the name that it is to have."""
        self.clock += 1
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name[:50]}.draft")
        draft.write_bytes(content)
        moment = self.clock if at is None else at
        os.utime(draft, (moment, moment))
        draft.rename(path)
        return path

    def write(self, name: str, *records: Record) -> Path:
        """A file in the format that its name says."""
        self.files[name] = list(records)
        return self.put(name, WRITERS[name.rpartition(".")[2]](records))


def attach(tr: Trickle, inbox: Inbox, pattern: str = "", **options: str) -> None:
    path = f"{inbox.path}/{pattern}" if pattern else str(inbox.path)
    tr.attach_source("inbox", "files", path=path, **{"schema": SCHEMA, **options})


def follow(tr: Trickle, inbox: Inbox, pattern: str = "", **options: str) -> None:
    attach(tr, inbox, pattern, **options)
    tr.sql("CREATE TABLE clicks FROM SOURCE inbox.files")


def held(tr: Trickle, columns: str = "id, name", table: str = "clicks") -> Counter[Record]:
    return Counter(tuple(r) for r in tr.sql(f"SELECT {columns} FROM {table}").collect())


def rejects(tr: Trickle) -> list[Record]:
    """The name of the file, what its record was, and why it was rejected."""
    found = tr.sql("SELECT file, record, reason FROM clicks_rejects").collect()
    return sorted(((Path(r[0]).name, r[1], r[2]) for r in found), key=repr)


def ledger(tr: Trickle) -> dict[str, Record]:
    found = tr.sql("SELECT file, status, rows, rejected FROM clicks_files").collect()
    assert len({r[0] for r in found}) == len(found), "a file is noted twice"
    return {Path(r[0]).name: tuple(r)[1:] for r in found}
