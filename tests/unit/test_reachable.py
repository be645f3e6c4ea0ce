"""What snapshots reach: each manifest is read once, and a set of paths forgets none."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io import FileIO, OutputFile
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

from thermocline.lake.files.path_set import PathSet
from thermocline.lake.read.reachable import ManifestIndex, live_files

pytestmark = pytest.mark.unit
SCHEMA = Schema(NestedField(1, "id", LongType(), required=True))


class CountingIO(PyArrowFileIO):
    """Counts how often each file is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: Counter[str] = Counter()

    def new_input(self, location: str) -> PyArrowFile:
        self.opened[location] += 1
        return super().new_input(location)


def write_history(folder: Path, io: FileIO, snapshots: int) -> list[Snapshot]:
    """Appends, one manifest each; every list names all manifests so far."""
    manifests, made = [], []
    for at in range(1, snapshots + 1):
        path = f"file://{folder}/m{at}.avro"
        with write_manifest(2, UNPARTITIONED_PARTITION_SPEC, SCHEMA, _output(io, path), at, "deflate") as writer:
            file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=f"file://{folder}/d{at}.parquet",
                file_format=FileFormat.PARQUET,
                partition=Record(),
                record_count=1,
                file_size_in_bytes=10 * at,
            )
            writer.add_entry(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=at, data_file=file))
        manifests.append(writer.to_manifest_file())
        listed = f"file://{folder}/snap-{at}-{uuid.uuid4()}.avro"
        with write_manifest_list(2, _output(io, listed), at, at - 1 or None, at, "deflate") as lists:
            lists.add_manifests(manifests)
        summary = Summary(operation=Operation.APPEND)
        told = {
            "snapshot-id": at,
            "sequence-number": at,
            "timestamp-ms": at,
            "manifest-list": listed,
            "summary": summary,
        }
        made.append(Snapshot.model_validate(told))
    return made


def _output(io: FileIO, path: str) -> OutputFile:
    return io.new_output(path)


@pytest.mark.conforms("M-101")
def test_each_list_and_each_manifest_is_read_once_however_many_snapshots_name_it(tmp_path: Path) -> None:
    io = CountingIO()
    snapshots = write_history(tmp_path, io, 40)
    index = ManifestIndex(io)
    gone, kept = index.reach(snapshots[:30]), index.reach(snapshots[30:])
    assert (len(gone.manifests), len(kept.manifests), len(gone.lists), len(kept.lists)) == (30, 40, 30, 10)
    index.reach(snapshots)
    files = [file for files in live_files(kept.manifests.values(), io) for file in files]
    assert sorted(size for _, size in files) == [10 * at for at in range(1, 41)]
    assert max(io.opened.values()) == 1


@given(st.lists(st.text(min_size=1), max_size=200), st.text(min_size=1))
def test_a_path_that_was_added_is_always_found(paths: list[str], other: str) -> None:
    held = PathSet()
    held.add(paths)
    assert all(path in held for path in paths)
    assert (other in held) == (other in paths)
    assert len(held) <= len(set(paths))
