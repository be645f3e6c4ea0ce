"""Quarantine and restore killed between every two steps, on local disk and in an object store: no file is lost, and
each can come back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.fs as fs
import pytest
from tests.faults.quarantine_child import main
from tests.object_store import BUCKET, Bucket, serve_bucket

from thermocline.runtime import object_store
from thermocline.runtime.file_io import open_location
from thermocline.runtime.object_store import use_store
from thermocline.runtime.pg import connect_as_typed as connect

ORPHANS = {"data/a b+c#d.parquet": b"first", "data/p=1/é.parquet": b"second"}


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with serve_bucket() as bucket:
        use_store(bucket.store)
        yield bucket
        object_store._in_use = None


@dataclass(frozen=True)
class Shelf:
    """A table's folder with two orphans in it."""

    dsn: str
    location: str
    lake_id: int
    conn: psycopg.Connection[Any]
    environment: dict[str, str]

    def run(self, verb: str) -> None:
        main(verb, self.dsn, str(self.lake_id), self.location)

    def kill(self, verb: str, point: str) -> None:
        """Do it in another process, which is killed there. On one disk a move is one step, so it has no middle."""
        point = f"{verb}-moved" if point == "move-copied" and self.location.startswith("file:") else point
        point = {"aside-moved": "quarantine-moved", "back-moved": "restore-moved"}.get(point, point)
        env = {**os.environ, **self.environment, "THERMOCLINE_TEST_KILL_AT": point}
        command = [
            sys.executable,
            "-m",
            "tests.faults.quarantine_child",
            verb,
            self.dsn,
            str(self.lake_id),
            self.location,
        ]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]

    def files(self) -> dict[str, bytes]:
        filesystem, root = open_location(self.location)
        found = filesystem.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
        return {
            info.path.removeprefix(root).lstrip("/"): filesystem.open_input_stream(info.path).read()
            for info in found
            if info.type == fs.FileType.File
        }

    def write(self, name: str, content: bytes) -> None:
        filesystem, path = open_location(f"{self.location}/{name}")
        if isinstance(filesystem, fs.LocalFileSystem):
            filesystem.create_dir(path.rpartition("/")[0], recursive=True)
        with filesystem.open_output_stream(path) as sink:
            sink.write(content)

    def notes(self) -> list[tuple[Any, ...]]:
        return self.conn.execute("select path, kept_at from thermocline.quarantined_files").fetchall()

    def let_time_pass(self) -> None:
        self.conn.execute("update thermocline.quarantined_files set until = now() - interval '1 day'")


@pytest.fixture(params=["disk", "store"])
def shelf(request: pytest.FixtureRequest, database: str, tmp_path: Path, bucket: Bucket) -> Iterator[Shelf]:
    location = f"file://{tmp_path}/events" if request.param == "disk" else f"s3://{BUCKET}/{tmp_path.name}/events"
    with connect(database, autocommit=True) as conn:
        row = conn.execute(
            "insert into thermocline.lake_tables (namespace, name) values ('lab', 'events') returning id"
        ).fetchone()
        assert row is not None
        made = Shelf(database, location, row[0], conn, bucket.store.environment())
        for name, content in ORPHANS.items():
            made.write(name, content)
        yield made


@pytest.mark.conforms("M-109")
@pytest.mark.parametrize("point", ["quarantine-noted", "move-copied", "quarantine-moved"])
def test_files_come_back_after_a_quarantine_that_was_killed(shelf: Shelf, point: str) -> None:
    shelf.kill("aside", point)
    assert set(shelf.files().values()) == set(ORPHANS.values())
    shelf.let_time_pass()
    shelf.run("back")
    assert (shelf.files(), shelf.notes()) == (ORPHANS, [])
    shelf.run("back")
    assert shelf.files() == ORPHANS


@pytest.mark.parametrize("point", ["quarantine-noted", "move-copied", "quarantine-moved"])
def test_a_quarantine_that_was_killed_is_finished_by_the_next_one_and_then_ends(shelf: Shelf, point: str) -> None:
    shelf.kill("aside", point)
    shelf.run("aside")
    assert sorted(shelf.files().values()) == sorted(ORPHANS.values())
    assert not any(name in shelf.files() for name in ORPHANS)
    shelf.run("empty")
    assert len(shelf.notes()) == 2
    shelf.let_time_pass()
    shelf.run("empty")
    assert (shelf.files(), shelf.notes()) == ({}, [])


@pytest.mark.parametrize("point", ["move-copied", "restore-moved"])
def test_a_restore_that_was_killed_goes_on_and_its_files_outlive_their_term(shelf: Shelf, point: str) -> None:
    shelf.run("aside")
    shelf.kill("back", point)
    shelf.let_time_pass()
    shelf.run("empty")
    assert set(shelf.files().values()) == set(ORPHANS.values())
    shelf.run("back")
    assert (shelf.files(), shelf.notes()) == (ORPHANS, [])


def test_a_file_of_the_same_name_is_not_written_over(shelf: Shelf) -> None:
    shelf.run("aside")
    name = next(iter(ORPHANS))
    shelf.write(name, b"newer")
    shelf.run("back")
    files = shelf.files()
    assert files[name] == b"newer"
    assert set(files.values()) == {b"newer", *ORPHANS.values()}
    assert len(shelf.notes()) == 1
    shelf.let_time_pass()
    shelf.run("empty")
    assert set(shelf.files().values()) == {b"newer", *ORPHANS.values()}
