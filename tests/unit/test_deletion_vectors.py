"""Deletion vectors as they are written and read back, and which data file a delete means in whatever spelling."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from thermocline.core.lake_file import LiveDataFile, LiveDeleteFile
from thermocline.core.maintenance.debt import deleted_rows
from thermocline.core.maintenance.files import DeleteIndex, LakeSnapshot, unneeded_deletes
from thermocline.parquet.deletes.deletion_vectors import write_vectors
from thermocline.parquet.deletes.read_deleted_rows import read_deletion_vector
from thermocline.parquet.rewrite_task import DeleteSource


def test_vectors_of_several_files_are_read_back_from_one_puffin_file(tmp_path: Path) -> None:
    places = {"b": np.array([7, 0, 7, 2**33 + 5]), "a": np.arange(0, 100_000, 3)}
    registered: list[str] = []
    made = write_vectors(f"file://{tmp_path}/data/x.puffin", places, registered.append)
    assert registered == [made.path]
    assert [(vector.data_file, vector.rows) for vector in made.vectors] == [("a", 33_334), ("b", 3)]
    for vector in made.vectors:
        source = DeleteSource(
            path=made.path,
            kind="vector",
            size_bytes=made.size_bytes,
            sequence_number=1,
            offset=vector.offset,
            length=vector.length,
        )
        assert read_deletion_vector(source, lambda _, __: None).tolist() == sorted(
            set(places[vector.data_file].tolist())
        )
    data = (tmp_path / "data" / "x.puffin").read_bytes()
    length = struct.unpack("<i", data[-12:-8])[0]
    footer = json.loads(data[-12 - length : -12])
    assert (len(data), data[:4], data[-4:], data[-16 - length : -12 - length]) == (
        made.size_bytes,
        b"PFA1",
        b"PFA1",
        b"PFA1",
    )
    assert [blob["properties"] for blob in footer["blobs"]] == [
        {"referenced-data-file": "a", "cardinality": "33334"},
        {"referenced-data-file": "b", "cardinality": "3"},
    ]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("s3://lake/db/t/data/x.parquet", "s3a://lake/db/t/data/x.parquet"),
        ("s3n://lake/db/t/data/x.parquet", "s3://lake/db/t/data/x.parquet"),
        ("file:/lake/t/data/x.parquet", "file:///lake/t/data/x.parquet"),
        ("file:///lake/t/data/x.parquet", "/lake/t/data/x.parquet"),
        ("s3a://lake/db/t/data/x.parquet", "data/x.parquet"),
        ("/lake/t/data/x.parquet", "t/data/x.parquet"),
    ],
)
@pytest.mark.parametrize("how", ["referenced", "named", "bounds"])
def test_a_delete_finds_its_file_in_another_spelling_and_no_other_file(path: str, said: str, how: str) -> None:
    file = LiveDataFile(path=path, size_bytes=1, record_count=10, sequence_number=1)
    other = LiveDataFile(path=path.replace("x.parquet", "zx.parquet"), size_bytes=1, record_count=10, sequence_number=1)
    delete = LiveDeleteFile(
        path="d.parquet",
        kind="position",
        size_bytes=1,
        record_count=3,
        sequence_number=2,
        referenced_file=said if how == "referenced" else None,
        paths={said: 3} if how == "named" else None,
        lowest_path=said,
        highest_path=said,
    )
    seen = LakeSnapshot(snapshot_id=1, sequence_number=2, format_version=2, data=(file, other), deletes=(delete,))
    index = DeleteIndex(seen)
    assert index.of(file) == (delete,)
    assert deleted_rows(file, index.of(file)) == (0 if how == "bounds" else 3)
    assert unneeded_deletes(seen) == ()
    if how != "bounds":
        assert index.of(other) == ()
        assert unneeded_deletes(seen, [file.path]) == (delete,)
