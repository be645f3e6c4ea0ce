"""What a commit will name is on disk before anybody hears of it: whoever writes lake files flushes them and their names
first."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.fsync_recorder import record_fsyncs
from tests.spark.external_engine import PROGRAM
from tests.unit.bins import Bin, lake_field

from thermocline.core.columns import HeapColumn, plan_lake_columns
from thermocline.lake.commit.flush import flush_commit
from thermocline.parquet.deletes.deletion_vectors import write_vectors
from thermocline.parquet.deletes.position_deletes import DeleteTarget, write_deletes
from thermocline.parquet.encode.lake_writer import FileTarget, LakeWriter
from thermocline.parquet.rewrite_task import SortField
from thermocline.parquet.values.arrow_types import arrow_schema
from thermocline.runtime.file_io import copy_file, fsync_environment, is_flushing, use_fsync
from thermocline.runtime.settings_layers import load_settings
from thermocline.spark.kernels.external_program import ExternalKernel

SCHEMA = pa.schema([lake_field("id", pa.int64(), 1), lake_field("name", pa.string(), 2)])
ROWS = 9_000
Write = Callable[[Path], list[str]]


def a_bin(folder: Path) -> Bin:
    lake = Bin(folder)
    for first in (0, ROWS):
        ids = list(range(first, first + ROWS))
        lake.add(
            pa.table([ids, [f"name {id}" for id in ids]], schema=SCHEMA), use_dictionary=False, write_page_index=True
        )
    return lake


def by_kernel(kernel: str, expected: str, **changes: Any) -> Write:
    def write(folder: Path) -> list[str]:
        result = a_bin(folder).run(kernel, **changes)
        assert result.kernel == expected, result.note
        return [output.path for output in result.outputs]

    return write


def by_an_external_engine(folder: Path) -> list[str]:
    lake = a_bin(folder)
    (folder / "out").mkdir()
    kernel = ExternalKernel(command=f"{sys.executable} {PROGRAM} honest")
    return [output.path for output in kernel(lake.task(), lake.registered.append, lambda _, __: None).outputs]


def by_tiering(folder: Path) -> list[str]:
    heap = HeapColumn(
        name="id",
        attnum=1,
        base_type="int8",
        pg_type="bigint",
        not_null=True,
        numeric_precision=None,
        numeric_scale=None,
    )
    columns = plan_lake_columns((heap,), ("id",))
    target = FileTarget(
        columns=columns,
        tier_key="id",
        partition=None,
        directory=f"file://{folder}/lake",
        stem="t",
        target_file_bytes=1 << 20,
        compression_level=1,
    )
    writer = LakeWriter(target, lambda _: None)
    writer.write(pa.record_batch([pa.array(range(ROWS), pa.int64())], schema=arrow_schema(columns)))
    writer.close()
    return [file.path for file in writer.files]


def by_a_fold(folder: Path) -> list[str]:
    target = DeleteTarget(directory=f"file://{folder}/lake", stem="f", compression_level=1)
    return [write_deletes(target, None, {"/a": np.array([1, 2])}, lambda _: None).path]


def by_vectors(folder: Path) -> list[str]:
    return [write_vectors(f"file://{folder}/lake/data/v.puffin", {"/a": np.array([1, 2])}, lambda _: None).path]


def by_a_copy(folder: Path) -> list[str]:
    (folder / "from").write_bytes(b"rows")
    copy_file(str(folder / "from"), f"file://{folder}/lake/data/to")
    return [f"file://{folder}/lake/data/to"]


WRITERS: dict[str, Write] = {
    "splice": by_kernel("splice", "splice"),
    "merge": by_kernel("splice", "merge", splice_min_row_group_bytes=1 << 40),
    "re-encode": by_kernel("reencode", "reencode"),
    "several outputs": by_kernel("reencode", "reencode", target_bytes=20_000),
    "sort": by_kernel("sort", "sort", sort=(SortField(field_id=1, descending=True),)),
    "z-order": by_kernel("zorder", "zorder", sort=(SortField(field_id=1), SortField(field_id=2))),
    "an external engine": by_an_external_engine,
    "tiering and folding": by_tiering,
    "position deletes": by_a_fold,
    "deletion vectors": by_vectors,
    "a carried delete file": by_a_copy,
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_what_is_written_is_on_disk_with_its_name_and_folder_before_it_is_handed_back(
    tmp_path: Path, write: Write
) -> None:
    with record_fsyncs() as flushes:
        paths = write(tmp_path)
    assert paths
    for path in paths:
        flushes.check_on_disk(path)
        assert flushes.has(tmp_path) or write is by_an_external_engine, (
            "the folder that was made has its name on disk too"
        )


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_with_fsync_off_nothing_is_flushed(tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "thermocline.runtime.file_io._flushes", None
    )  # what another test's settings said in this process
    monkeypatch.setenv("THERMOCLINE_FSYNC", "off")
    with record_fsyncs() as flushes:
        assert write(tmp_path)
        (tmp_path / "snap-1-1-abc.avro").write_bytes(b"")
        assert flush_commit(str(tmp_path / "snap-1-1-abc.avro")) == 0
    assert not flushes.seen


@pytest.mark.parametrize(("said", "is_on"), [("off", False), ("false", False), ("on", True), ("true", True)])
def test_the_setting_reaches_tasks_by_their_environment(
    said: str, is_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_settings(environ={"THERMOCLINE_FSYNC": said}).values
    assert settings.fsync is is_on
    monkeypatch.setattr("thermocline.runtime.file_io._flushes", None)
    use_fsync(settings.fsync)
    environment = fsync_environment()
    monkeypatch.setattr("thermocline.runtime.file_io._flushes", None)
    monkeypatch.setenv("THERMOCLINE_FSYNC", environment["THERMOCLINE_FSYNC"])
    assert is_flushing() is is_on


def test_a_commits_manifests_and_metadata_are_flushed_and_nobody_elses(tmp_path: Path) -> None:
    for name in (
        "snap-1-1-abc.avro",
        "abc-m0.avro",
        "abc-m1.avro",
        "snap-2-1-def.avro",
        "def-m0.avro",
        "1-x.metadata.json",
        "2-y.metadata.json",
    ):
        (tmp_path / name).write_bytes(b"x")
    with record_fsyncs() as flushes:
        assert flush_commit(f"file:{tmp_path}/snap-1-1-abc.avro") == 4
    names = {Path(name).name for name, _ in flushes.seen}
    assert names == {"snap-1-1-abc.avro", "abc-m0.avro", "abc-m1.avro", "2-y.metadata.json", tmp_path.name}
