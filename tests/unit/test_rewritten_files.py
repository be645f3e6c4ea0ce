"""Bytes of a rewrite: copied by the kernel between local files, and flushed before what they replace is deleted."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest

from thermocline.errors import LakeInputUnreadable
from thermocline.parquet.byte_files import CHUNK_BYTES, FileSink, FileSource
from thermocline.runtime.file_io import flush_recent


def test_a_range_is_copied_byte_for_byte_and_its_bytes_are_paced(tmp_path: Path) -> None:
    data = os.urandom(CHUNK_BYTES + 12_345)
    (tmp_path / "from").write_bytes(data)
    registered: list[str] = []
    moved: list[tuple[int, int]] = []
    sink = FileSink(
        f"file://{tmp_path}/deep/to", registered.append, lambda read, written: moved.append((read, written))
    )
    with FileSource(f"file://{tmp_path}/from", lambda _, __: None) as source:
        sink.write(b"PAR1")
        sink.copy(source, 100, len(data) - 100)
    sink.close()
    assert (tmp_path / "deep" / "to").read_bytes() == b"PAR1" + data[100:]
    assert registered == [f"file://{tmp_path}/deep/to"]
    assert sink.at == 4 + len(data) - 100 == sum(written for _, written in moved)
    assert sum(read for read, _ in moved) == len(data) - 100


def test_bytes_are_copied_from_another_file_system_too(tmp_path: Path) -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as far:
        far.write(b"0123456789")
        far.flush()
        sink = FileSink(f"file://{tmp_path}/to", lambda _: None, lambda _, __: None)
        with FileSource(f"file://{far.name}", lambda _, __: None) as source:
            sink.copy(source, 2, 5)
        sink.close()
    assert (tmp_path / "to").read_bytes() == b"23456"


def test_a_file_that_shrank_while_it_was_copied_is_named(tmp_path: Path) -> None:
    (tmp_path / "from").write_bytes(b"0123456789")
    sink = FileSink(f"file://{tmp_path}/to", lambda _: None, lambda _, __: None)
    with FileSource(f"file://{tmp_path}/from", lambda _, __: None) as source:
        os.truncate(tmp_path / "from", 4)
        with pytest.raises(LakeInputUnreadable, match="ends early"):
            sink.copy(source, 2, 8)
    sink.abandon()


def test_only_young_files_of_this_machine_are_flushed(tmp_path: Path) -> None:
    young, old = tmp_path / "young", tmp_path / "old"
    for path in (young, old):
        path.write_bytes(b"rows")
    os.utime(old, (1, 1))
    named = [f"file://{young}", str(old), f"file://{tmp_path}/gone", "s3://bucket/far"]
    assert flush_recent(named, time.time()) == 1
