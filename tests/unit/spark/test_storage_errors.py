"""What Spark says of storages that others keep -> our errors."""

from __future__ import annotations

import pytest

from spark_trickle.errors import OutsideFileError, SourceSetupError, SourceUnavailableError
from spark_trickle.spark.addresses import name_in_spark, write_pattern
from spark_trickle.spark.errors import explain_storage

FILE = "s3a://lake/orders/part-0.parquet"
SAID = {
    "java.lang.RuntimeException: java.lang.ClassNotFoundException: Class"
    " org.apache.hadoop.fs.s3a.S3AFileSystem not found": SourceSetupError,
    'No FileSystem for scheme "gs"': SourceSetupError,
    f"[PATH_NOT_FOUND] Path does not exist: {FILE}. SQLSTATE: 42K03": OutsideFileError,
    f"java.io.FileNotFoundException: No such file or directory: {FILE}": OutsideFileError,
    f"[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file {FILE}.": OutsideFileError,
    f"getFileStatus on {FILE}: software.amazon.awssdk.core.exception.SdkClientException: Unable to execute"
    " HTTP request: Connect to 127.0.0.1:9 failed": SourceUnavailableError,
    f"java.nio.file.AccessDeniedException: {FILE}: getFileStatus: S3Exception: Forbidden (Status Code: 403)"
    "": SourceUnavailableError,
    f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file {FILE}. Is not a Parquet file": None,
    "[PATH_NOT_FOUND] Path does not exist: file:/lake/part-0.parquet. SQLSTATE: 42K03": None,
    "java.net.ConnectException: Connection refused": None,
}


@pytest.mark.parametrize("text", SAID)
def test_errors_of_storages(text: str) -> None:
    expected = SAID[text]
    found = explain_storage(text)
    assert found is None if expected is None else type(found) is expected
    if isinstance(found, OutsideFileError):
        assert found.address == FILE


def test_addresses() -> None:
    assert [name_in_spark(a) for a in ("s3://b/x", "s3a://b/x", "gs://b/x", "/s3://x")] == [
        *("s3a://b/x", "s3a://b/x", "gs://b/x", "/s3://x")
    ]
    assert write_pattern("s3://b/[1] %20?") == "s3a://b/\\[1\\] %20\\?"
