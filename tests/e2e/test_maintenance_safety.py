"""Maintenance of a registered table: whatever expires or is swept, every reader that Postgres or a pin knows of reads
the same rows."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable
from tests.e2e.eager_pass import eager_pass
from tests.maintenance_ops import run_expire_snapshots, run_prune_metadata, run_remove_orphans, run_rewrite_manifests
from tests.twin import Spanning, assert_same_rows

from thermocline.core.maintenance.outcome import Outcome
from thermocline.core.names import TableName
from thermocline.lake.commit.compare_and_swap import load_table
from thermocline.runtime.locations import without_file_scheme
from thermocline.runtime.pg import connect_as_typed as connect

SEAM = "select id, ts, v, note, amount from public_all.events order by id"


def run_all(spanning: Spanning, **policy: Any) -> dict[str, Outcome]:
    """Everything that moves or deletes files, flat out."""
    with eager_pass(spanning, **policy) as context:
        runs = (run_rewrite_manifests, run_expire_snapshots, run_remove_orphans, run_prune_metadata)
        return {outcome.operation: outcome for outcome in (run(context) for run in runs)}


def churn(spanning: Spanning, salt: int) -> None:
    """One more snapshot of the lake."""
    spanning.both(f"update events set v = v + {salt} where id between {salt} and {salt + 40}")
    spanning.fold()


def folder(spanning: Spanning) -> Path:
    return Path(without_file_scheme(spanning.query("select lake_location from thermocline.tables")[0][0]))


@pytest.mark.conforms("M-008", "M-043", "M-044")
def test_a_reader_from_before_reads_the_same_rows_while_everything_expires_and_then_lets_go(spanning: Spanning) -> None:
    spanning.tier()
    churn(spanning, 3)
    reader = spanning.session()
    reader.execute("set transaction isolation level repeatable read")
    before = reader.execute(SEAM).fetchall()
    for salt in (5, 7, 11):
        churn(spanning, salt)
    done = run_all(spanning)
    held = [detail for detail in done["expire_snapshots"].details if " stays: " in detail]
    assert any("reader" in detail for detail in held), held
    assert reader.execute(SEAM).fetchall() == before
    spanning.assert_same_rows()
    reader.commit()
    after = run_all(spanning)["expire_snapshots"]
    assert after.counters["snapshots_expired"] > 0
    assert after.counters["files_deleted"] > 0
    spanning.assert_same_rows()
    ((published, history),) = spanning.query(
        "select c.s, array_agg(p.snapshot_id) from thermocline.cutline c join thermocline.published p using "
        "(table_id) group by c.s"
    )
    assert history == [published]
    churn(spanning, 13)
    spanning.assert_same_rows()


def make_old(spanning: Spanning) -> None:
    """Every file of the lake is a month old."""
    old = time.time() - 30 * 24 * 3600
    for path in folder(spanning).rglob("*"):
        if path.is_file():
            os.utime(path, (old, old))


def metadata_files(spanning: Spanning) -> set[str]:
    return {str(path) for path in (folder(spanning) / "metadata").glob("*.metadata.json")}


def named_versions(spanning: Spanning) -> set[str]:
    """The table's metadata file, and those its log names."""
    head = load_table(spanning.spark(), TableName("public", "events"))
    logged = {entry["metadata-file"] for entry in head.metadata["metadata-log"]}
    return {without_file_scheme(path) for path in (head.metadata_location, *logged)}


@pytest.mark.conforms("M-045", "M-046", "M-049")
def test_a_pinned_version_stays_readable_by_its_metadata_file_while_maintenance_runs_flat_out(
    spanning: Spanning,
) -> None:
    spanning.tier()
    ((pin, snapshot, location),) = spanning.query(
        "select id, snapshot_id, metadata_location from thermocline.pin('public.events', '1 hour')"
    )
    spanning.spark().sql(
        "alter table thermocline.public.events set tblproperties ('write.metadata.previous-versions-max' = '2')"
    )
    for salt in (5, 7):
        churn(spanning, salt)
    make_old(spanning)
    done = run_all(spanning, orphan_grace_ms=1)
    assert any(f"pin {pin} of postgres" in detail for detail in done["expire_snapshots"].details)
    scanned = StaticTable.from_metadata(location).scan(snapshot_id=snapshot, selected_fields=("id",)).to_arrow()
    expected = spanning.query(
        "select count(*) from twin.events where ts < (select thermocline.key_timestamptz(t) from thermocline.cutline)"
    )
    assert [(scanned.num_rows,)] == expected
    spanning.assert_same_rows()
    make_old(spanning)
    run_all(spanning)
    pinned = without_file_scheme(location)
    assert metadata_files(spanning) == named_versions(spanning) | {pinned}
    assert pinned not in named_versions(spanning)
    assert spanning.query(f"select thermocline.release_pin({pin})") == [(True,)]
    assert run_all(spanning)["expire_snapshots"].counters["snapshots_expired"] >= 1
    make_old(spanning)
    run_all(spanning)
    assert metadata_files(spanning) == named_versions(spanning)
    assert len(named_versions(spanning)) <= 3
    spanning.assert_same_rows()


@pytest.mark.conforms("M-214")
def test_after_expiry_the_folder_holds_what_the_table_names_and_nothing_else(spanning: Spanning) -> None:
    spanning.tier()
    for salt in (5, 7):
        churn(spanning, salt)
    run_all(spanning)
    spanning.assert_same_rows()
    rows = spanning.spark().sql("select file_path from thermocline.public.events.all_files").collect()
    named = {without_file_scheme(row[0]) for row in rows}
    there = {str(path) for path in (folder(spanning) / "data").rglob("*.parquet")}
    assert there == named


def test_a_rewrite_of_manifests_is_what_readers_read_at_once(spanning: Spanning) -> None:
    spanning.tier()
    churn(spanning, 5)
    before = spanning.query("select s, t, epoch from thermocline.cutline")
    with eager_pass(spanning) as context:
        done = run_rewrite_manifests(context)
    after = spanning.query("select s, t, epoch from thermocline.cutline")
    head = (
        spanning.spark()
        .sql("select snapshot_id, operation from thermocline.public.events.snapshots order by committed_at desc")
        .first()
    )
    assert done.status == "done"
    assert (after[0][0] != before[0][0], after[0][1:]) == (True, before[0][1:])
    assert head is not None
    assert tuple(head) == (after[0][0], "replace")
    with closing(connect(spanning.dsn)) as conn:
        assert_same_rows(conn)
    churn(spanning, 9)
    spanning.assert_same_rows()


@pytest.mark.conforms("C-073")
def test_a_quiet_table_stays_readable_after_any_number_of_maintenance_commits(spanning: Spanning) -> None:
    spanning.tier()
    churn(spanning, 5)
    reader = spanning.session()
    reader.execute("set transaction isolation level repeatable read")
    before = reader.execute(SEAM).fetchall()
    for number in range(4):
        spanning.spark().sql(f"alter table thermocline.public.events set tblproperties ('quiet' = '{number}')")
        run_all(spanning, manifest_rewrite_min_manifests=1)
        spanning.assert_same_rows()
        assert reader.execute(SEAM).fetchall() == before
    reader.commit()
    run_all(spanning)
    spanning.assert_same_rows()
