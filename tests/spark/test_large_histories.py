"""Tables with a long history, made quickly: thousands of manifests rewritten, snapshots of other writers expired."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from bench.lake_history import LakeHistory
from tests.maintenance_ops import run_expire_snapshots, run_rewrite_manifests
from tests.spark.lake_database import LakeDatabase
from tests.spark.swept_table import SweptTable, make_lake

from thermocline.core.policy.keys import preset_value
from thermocline.lake.read.manifest_list import read_manifest_facts
from thermocline.lake.read.storage import LakeReader
from thermocline.lake.read.table_metadata import read_lake_table

COUNT = 400
WEEK_MS = 7 * 24 * 3_600_000


@pytest.fixture
def lake(lake_database: LakeDatabase) -> Iterator[SweptTable]:
    with make_lake(lake_database, "id bigint, part bigint") as lake:
        lake.sql("alter table {t} add partition field part")
        yield lake


def opened_for(lake: SweptTable, part: int) -> tuple[int, int]:
    """How many manifests the table has, and how many of them a plan of one partition has to open."""
    snapshot = read_lake_table(lake.head.metadata_location).metadata.current_snapshot()
    assert snapshot is not None
    manifests = snapshot.manifests(LakeReader())
    ends = [(manifest.partitions or [])[0] for manifest in manifests]
    spans = [
        (int.from_bytes(end.lower_bound or b"", "little"), int.from_bytes(end.upper_bound or b"", "little"))
        for end in ends
    ]
    return len(manifests), sum(low <= part <= high for low, high in spans)


@pytest.mark.conforms("M-115")
def test_a_rewrite_leaves_a_twentieth_of_the_list_and_a_plan_opens_a_tenth(lake: SweptTable) -> None:
    """That it happens weekly is proved in tests/postgres/test_passes.py; the times of plans are in bench/upkeep."""
    assert preset_value("artemis", "manifest_rewrite_interval_ms") == WEEK_MS
    made = LakeHistory(lake.head)
    made.commit([[made.manifest([at], tuple((at + step * 4) % 16 for step in range(4))) for at in range(COUNT)]])
    before = opened_for(lake, 5)
    assert before == (COUNT, COUNT)
    size = sum(fact.size_bytes for fact in read_manifest_facts(lake.head.metadata_location))
    done = run_rewrite_manifests(
        lake.context(preset="artemis", manifest_rewrite_min_manifests=2, manifest_target_bytes=size // 20)
    )
    assert done.counters["manifests_rewritten"] == COUNT
    assert done.counters["entries_total"] == 4 * COUNT
    after = opened_for(lake, 5)
    assert after[0] == done.counters["manifests_written"] <= COUNT / 20
    assert after[1] <= before[1] / 10, (before, after)


def test_snapshots_that_foreign_writers_gave_small_numbers_expire_too(lake: SweptTable) -> None:
    made = LakeHistory(lake.head)
    made.commit([[made.manifest([number], (1,), number)] for number in range(1, 4)])
    done = run_expire_snapshots(
        lake.context(later=timedelta(days=30), snapshot_min_retained=1, snapshot_retention_ms=1)
    )
    assert done.counters["snapshots_expired"] == 2
    assert [told["snapshot-id"] for told in lake.head.metadata["snapshots"]] == [3]
