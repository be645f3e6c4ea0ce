"""Deletion of lake files in an object store: spellings of its scheme, significant slashes, and the store's own
clock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.object_store import BUCKET, serve_bucket

from thermocline.lake.files.store_clock import read_store_clock
from thermocline.runtime import object_store
from thermocline.runtime.object_store import use_store

BEHIND = -timedelta(days=5)
MONTH_AGO = -timedelta(days=35)


@pytest.fixture
def said(database: str) -> dict[str, Any]:
    """The report of a maintained table in a store whose clock is five days behind ours."""
    with serve_bucket() as bucket:
        bucket.shifts += [("metadata.json", MONTH_AGO), ("old", MONTH_AGO), ("", BEHIND)]
        command = [sys.executable, "-m", "tests.e2e.object_store_upkeep_child", database, f"s3://{BUCKET}/ware house"]
        env = {**os.environ, **bucket.store.environment()}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=280)
        assert done.returncode == 0, done.stderr[-3000:]
        found: dict[str, Any] = json.loads(done.stdout.rpartition("SAID ")[2])
        return found


@pytest.mark.conforms("M-104", "M-182")
def test_a_lake_in_a_store_loses_nothing_that_is_young_or_named_by_any_spelling(said: dict[str, Any]) -> None:
    assert (said["prune"], said["head is there"], said["metadata files"]) == ("pruned 3 metadata file(s)", True, 2)
    assert said["sweep"] == "removed 1 orphan file(s)"
    assert (said["left"], said["rows"], said["double slash kept"]) == (["fresh.parquet"], [0, 1, 2, 3], True)
    assert "data//old-live.parquet" in said["refused"]
    assert said["refused"].startswith(
        "PathSpellingsDiffer: lab.events: s3://lake/ware house/lab/events/data/old-live.parquet"
    )
    assert said["live is there"]


def test_the_time_is_the_stores_own() -> None:
    with serve_bucket() as bucket:
        use_store(bucket.store)
        try:
            bucket.shifts.append(("", BEHIND))
            assert abs(read_store_clock(f"s3://{BUCKET}/t/metadata") - (datetime.now(UTC) + BEHIND)) < timedelta(
                minutes=5
            )
            assert bucket.files() == []
        finally:
            object_store._in_use = None
