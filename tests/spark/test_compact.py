"""Compaction of Iceberg tables that Postgres does not know."""

from __future__ import annotations

import pytest
from tests.spark.ground import Ground
from tests.spark.lake import Lake


@pytest.fixture
def lake(ground: Ground) -> Lake:
    return Lake.make(ground, "id bigint, region string, v double", partitioned="region")


def test_small_files_become_one_per_partition_in_one_commit_and_the_next_pass_does_nothing(lake: Lake) -> None:
    lake.append([(at, "us" if at % 3 else "eu", at / 7) for at in range(300)], files=5)
    before, rows = lake.head().snapshot_id, lake.rows()
    told = lake.compact()
    assert (told.status, told.sentence) == ("done", "compacted 10 files into 2 (across 2 bins)")
    assert lake.rows() == rows
    assert lake.summary()["operation"] == "replace"
    assert len(lake.seen().data) == 2
    assert lake.staged() == []
    assert before in {found["snapshot-id"] for found in lake.head().told["snapshots"]}
    again = lake.compact()
    assert (again.status, again.sentence) == ("skipped", "no files eligible for compaction")
