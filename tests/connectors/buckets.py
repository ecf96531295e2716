"""A bucket for tests: the server in its own process, and what tests put there."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyarrow import fs

from tests.connectors.conftest import PYTHON
from tests.sources.test_delta import Lake

BUCKET = "lake"


@dataclass
class Bucket:
    """A server of S3 that one may stop."""

    process: subprocess.Popen[str]
    port: int = 0
    key: str = ""
    secret: str = ""

    def order(self, order: str, given: str = "") -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([order, given]) + "\n")
        self.process.stdin.flush()
        return self.read_answer()

    def read_answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def requests(self) -> list[str]:
        """Those since this was last called."""
        return list(self.order("requests"))

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs that reads and writes there."""
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
        }

    @property
    def files(self) -> fs.S3FileSystem:
        """The server as an application sees it."""
        return fs.S3FileSystem(
            access_key=self.key,
            secret_key=self.secret,
            region="us-east-1",
            endpoint_override=f"http://127.0.0.1:{self.port}",
        )

    def put(self, name: str, content: bytes) -> None:
        with self.files.open_output_stream(f"{BUCKET}/{name}") as sink:
            sink.write(content)

    def list_files(self, folder: str) -> list[str]:
        found = self.files.get_file_info(fs.FileSelector(f"{BUCKET}/{folder}", recursive=True))
        return sorted(f.path.removeprefix(f"{BUCKET}/") for f in found if f.type == fs.FileType.File)

    def delete(self, name: str) -> None:
        self.files.delete_file(f"{BUCKET}/{name}")


@contextmanager
def start_bucket(folder: Path) -> Iterator[Bucket]:
    command = [str(PYTHON), str(Path(__file__).with_name("bucket_server.py"))]
    log = (folder / "log").open("w")
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ}
    )
    bucket = Bucket(process)
    told = bucket.read_answer()
    bucket.port, bucket.key, bucket.secret = told["port"], told["key"], told["secret"]
    yield bucket
    assert process.stdin is not None
    process.stdin.close()
    process.wait(60)


@dataclass
class BucketLake(Lake):
    """Delta tables in a folder of a bucket; `scheme` is how our user spells its address."""

    bucket: Bucket | None = None
    scheme: str = "s3"

    @property
    def folder(self) -> str:
        return str(self.path)

    def there(self, name: str) -> str:
        return f"s3://{BUCKET}/{self.folder}/{name}"

    @property
    def address(self) -> str:
        return f"{self.scheme}://{BUCKET}/{self.folder}"

    @property
    def options(self) -> dict[str, str]:
        return {"allow_http": "true"}

    def table(self, name: str = "orders") -> DeltaTable:
        return DeltaTable(self.there(name), storage_options=self.options)

    def write(self, rows: pa.Table, name: str = "orders", mode: Any = "append", **options: Any) -> None:
        write_deltalake(self.there(name), rows, mode=mode, storage_options=self.options, **options)

    def attach(self, tr: Any) -> None:
        tr.sql(f"ATTACH SOURCE lake TYPE delta OPTIONS (path '{self.address}')")

    def remove(self, name: str) -> None:
        """Somebody drops the table."""
        assert self.bucket is not None
        for file in self.bucket.list_files(f"{self.folder}/{name}"):
            self.bucket.delete(file)
