"""Which files a sample of the lake is taken from."""

from __future__ import annotations

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from thermocline.lake.read.scan import ScanPlan, thin_scan
from thermocline.lake.read.table_metadata import LakeTable, SnapshotFile

_METADATA = new_table_metadata(Schema(), UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "file:///lake")
_TABLE = LakeTable(location="", uuid="", fields=(), snapshot_ids=frozenset({1}), metadata=_METADATA)


def _plan(files: int) -> ScanPlan:
    data = tuple(
        SnapshotFile(
            path=f"file:///lake/{n}.parquet",
            record_count=1000,
            size_bytes=10,
            sequence_number=1,
            lower={},
            upper={},
            null_counts={},
        )
        for n in range(files)
    )
    return ScanPlan(table=_TABLE, snapshot_id=1, data=data, deletes=(), files_skipped=0)


@pytest.mark.parametrize("offset", [0.0, 0.5, 0.999])
def test_a_small_sample_of_many_files_reads_few_of_them_from_all_over_the_table(offset: float) -> None:
    whole = _plan(10_000)
    thinned = thin_scan(whole, 600_000, offset)
    places = [int(file.path.rpartition("/")[2].partition(".")[0]) for file in thinned.data]
    assert thinned.row_count >= 600_000
    assert len(places) <= 700
    assert places[0] < 20
    assert places[-1] >= 9_980
    assert thinned.files_skipped == 10_000 - len(places)
    assert thinned.bytes_skipped == 10 * thinned.files_skipped


def test_a_few_files_and_a_large_sample_are_read_whole() -> None:
    assert len(thin_scan(_plan(80), 1000, 0.5).data) == 80
    assert len(thin_scan(_plan(10_000), 9_000_000, 0.5).data) == 10_000
