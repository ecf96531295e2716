"""A data folder and a Spark session -> a refusal if tasks of the session have another folder at that path."""

from __future__ import annotations

from pyspark.sql import SparkSession

from spark_trickle.errors import FolderNotSharedError, TrickleError
from spark_trickle.lake.storage.files import Storage
from spark_trickle.spark.probe import look_for_file, runs_elsewhere


def require_shared_folder(session: SparkSession, storage: Storage) -> None:
    """Cheap, so executors that start later are not looked at: every write is counted again."""
    if not storage.local or not runs_elsewhere(session):
        return
    if not storage.is_writable:
        return  # nothing can be lost, and a read that does not find a file says so
    with storage.probe_file() as address:
        try:
            sighting = look_for_file(session, address)
        except TrickleError as error:
            detail = f"Spark cannot read a file that was just written there ({error.message})"
            raise FolderNotSharedError(storage.root, detail) from error
    if sighting.found < sighting.looks:
        missed = sighting.looks - sighting.found
        detail = f"{missed} of {sighting.looks} times a task did not find a file that the driver wrote there"
        raise FolderNotSharedError(storage.root, detail)
