"""Metadata files that our catalog knows nothing of: which of them say that somebody else owns the table."""

from __future__ import annotations

import gzip
import json
import os
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from thermocline.core.columns import LakeColumn
from thermocline.core.names import TableName
from thermocline.errors.maintenance import StoreClockUnknown
from thermocline.lake.commit.create_table import create_lake_table
from thermocline.lake.commit.evolve_schema import write_evolved
from thermocline.lake.files.other_writers import find_other_writer
from thermocline.lake.files.store_clock import read_store_clock
from thermocline.lake.read.metadata_file import read_metadata_file
from thermocline.lake.read.table_metadata import forget_cached_tables, read_lake_table
from thermocline.runtime.locations import without_file_scheme

pytestmark = pytest.mark.unit
COLUMN = LakeColumn(
    name="id", field_id=1, base_type="int8", pg_type="bigint", lake_type="long", form="native", required=True
)


class History:
    """A table's metadata files, each minute older than the one that was written after it."""

    def __init__(self, folder: Path) -> None:
        self.minute = 0
        self.first = create_lake_table(
            str(folder), TableName("lab", "t"), (COLUMN,), "id", "none", table_uuid=uuid.uuid4()
        ).metadata_location
        self.stamp(self.first)

    def stamp(self, location: str) -> str:
        self.minute += 1
        os.utime(without_file_scheme(location), (60.0 * self.minute, 60.0 * self.minute))
        return location

    def follow(self, location: str) -> str:
        return self.stamp(write_evolved(read_metadata_file(location), location, (COLUMN,), {}, now_ms=0))

    def found(self, head: str) -> str | None:
        return find_other_writer(read_lake_table(head).metadata, head)


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path)


def test_a_version_after_the_head_is_somebody_elses(history: History) -> None:
    second = history.follow(history.first)
    assert history.found(second) is None
    assert history.found(history.first) == second
    os.utime(without_file_scheme(second), (0, 0))
    assert history.found(history.first) == second  # by its number, whatever its time


def test_what_a_lost_commit_left_is_not(history: History) -> None:
    lost = history.follow(history.first)
    head = history.follow(history.follow(history.first))
    assert history.found(head) is None
    history.stamp(lost)
    assert history.found(head) == lost  # written after the head, by the store's clock


def test_a_history_of_others_beside_ours_is_found_although_ours_is_newer(history: History) -> None:
    theirs = history.follow(history.follow(history.first))
    head = history.follow(history.follow(history.follow(history.first)))
    assert history.found(head) == theirs


def test_versions_that_left_the_log_other_tables_and_waste_are_not_meant(history: History) -> None:
    head = history.first
    for _ in range(3):
        head = history.follow(head)
    told = read_metadata_file(head)
    path = Path(without_file_scheme(head))
    path.write_text(json.dumps({**told, "metadata-log": told["metadata-log"][-1:]}))
    history.stamp(head)
    forget_cached_tables()
    other = path.with_name("00003-other.metadata.json")
    other.write_text(json.dumps({**told, "table-uuid": str(uuid.uuid4())}))
    path.with_name("v3.metadata.json").write_text("left behind")
    path.with_name("v3.gz.metadata.json").write_bytes(gzip.compress(path.read_bytes())[:-20])  # torn by a power cut
    assert history.found(head) is None


@pytest.mark.parametrize("name", ["00001-again.metadata.json", "table.metadata.json"])
def test_a_newer_version_under_a_number_that_left_the_log_is_somebody_elses(history: History, name: str) -> None:
    """A writer that another catalog brought back to an earlier version counts on from there, or has no numbers at
    all."""
    head = history.first
    for _ in range(4):
        head = history.follow(head)
    path = Path(without_file_scheme(head))
    told = read_metadata_file(head)
    path.write_text(json.dumps({**told, "metadata-log": told["metadata-log"][-1:]}))
    history.stamp(head)
    forget_cached_tables()
    assert history.found(head) is None
    other = path.with_name(name)
    other.write_text(json.dumps(told))
    assert str(history.found(head)).endswith(name)  # written just now, and the head an hour after the epoch
    os.utime(other, (0, 0))
    assert history.found(head) is None  # a copy of an earlier version that somebody kept
    other.write_text(json.dumps({**told, "last-updated-ms": told["last-updated-ms"] - 48 * 3_600_000}))
    assert history.found(head) is None  # an old version of ours in a folder that was copied, where times mean nothing


def test_the_clock_of_a_folder_leaves_nothing_behind_and_needs_one_that_can_be_written(tmp_path: Path) -> None:
    assert abs(read_store_clock(f"file://{tmp_path}") - datetime.now(UTC)) < timedelta(minutes=5)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StoreClockUnknown, match="no file can be made in"):
        read_store_clock(f"{tmp_path}/nowhere")
