"""What a task of Spark must not pay for each time: archives read again, a program started for each file that is
made."""

from __future__ import annotations

import importlib
import zipimport
from pathlib import Path
from typing import Any

from tests.spark.lake_database import LakeDatabase

from thermocline.core.names import TableName
from thermocline.lake.commit.compare_and_swap import load_table
from thermocline.spark.spark_session import lake_identifier


def _archives_read_again(_share: int) -> list[str]:
    """Archives on a worker's path whose directory is another object after what Spark does before each task."""
    known: dict[str, object] = dict(zipimport._zip_directory_cache)  # type: ignore[attr-defined]
    importlib.invalidate_caches()
    after: dict[str, object] = zipimport._zip_directory_cache  # type: ignore[attr-defined]
    return [place for place, found in known.items() if after.get(place) is not found] if known else ["none known"]


def test_a_worker_keeps_what_it_knows_of_archives(lake_database: LakeDatabase) -> None:
    assert lake_database.spark.sparkContext.parallelize([0], 1).map(_archives_read_again).collect() == [[]]


def test_files_of_a_local_lake_are_made_without_starting_a_program(lake_database: LakeDatabase, tmp_path: Path) -> None:
    """Hadoop's own file system starts `chmod` for each."""
    jvm: Any = lake_database.spark._jvm
    name = TableName("warm", "made")
    lake_database.spark.sql("create namespace thermocline.warm")
    lake_database.spark.sql(f"create table {lake_identifier(name)} (id bigint) using iceberg")
    hadoop = load_table(lake_database.spark, name).table.io().getConf()
    path = jvm.org.apache.hadoop.fs.Path(f"file://{tmp_path}/made")
    files = path.getFileSystem(hadoop)
    files.create(path).close()
    assert (tmp_path / "made").stat().st_size == 0
    assert files.getClass().getName() == "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
