"""Registered and unregistered tables under one maintenance; a keep-heap table under constant updates."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from tests.twin import Spanning

from thermocline.catalog.maintenance.policies import apply_policy
from thermocline.core.names import TableName
from thermocline.core.policy.policy_layers import change_policy, parse_changes
from thermocline.maintain.lake_tables import add_table, read_list
from thermocline.maintain.run_pass import PassReport, PassRequest, run_pass
from thermocline.maintain.targets import find_target
from thermocline.runtime.pg import connect_as_typed as connect

OTHER = TableName("lab", "other")
KEEP_ONE = ("snapshot_min_retained=1", "snapshot_retention_ms=1")


def maintain(spanning: Spanning, name: TableName, *operations: str, dry_run: bool = False) -> PassReport:
    request = PassRequest(operations=operations, dry_run=dry_run)
    return run_pass(spanning.dsn, name, settings=spanning.settings, spark=spanning.spark, request=request)


def delete_files(spanning: Spanning) -> int:
    return int(spanning.spark().sql("select count(*) from thermocline.public.events.delete_files").collect()[0][0])


@pytest.mark.conforms("M-007")
def test_a_registered_table_has_the_bounds_of_its_readers_and_another_those_of_its_refs_and_staged_files(
    spanning: Spanning,
) -> None:
    """Pins are of registered tables; what an unregistered one pins is the start of its own passes."""
    spanning.tier()
    reader = spanning.session()
    reader.execute("set transaction isolation level repeatable read")
    seen = reader.execute("select count(*), (select s from thermocline.cutline) from events").fetchone()
    assert seen is not None
    spanning.both("update events set v = v + 1 where ts < '2026-02-01'")
    spanning.fold()
    sql = spanning.spark().sql
    sql("create namespace if not exists thermocline.lab")
    sql("create table thermocline.lab.other (id bigint) using iceberg")
    for key in range(3):
        sql(f"insert into thermocline.lab.other values ({key})")
        if key == 0:
            sql("alter table thermocline.lab.other create tag kept")
    add_table(spanning.dsn, OTHER)
    assert [(line.table, line.registered) for line in read_list(spanning.dsn)] == [
        ("lab.other", False),
        ("public.events", True),
    ]

    bounds = maintain(spanning, spanning.name, "expire_snapshots", dry_run=True).bounds
    assert bounds is not None
    assert bounds["floor_snapshot"] == seen[1]
    assert len(bounds["protected_snapshots"]) == 2
    of_other = maintain(spanning, OTHER, "expire_snapshots", dry_run=True).bounds
    assert of_other is not None
    assert of_other["protected_snapshots"] == {}
    with closing(connect(spanning.dsn, autocommit=True)) as conn:
        for owner in (find_target(conn, name).owner for name in (spanning.name, OTHER)):
            apply_policy(
                conn,
                owner,
                lambda before: change_policy(
                    before, parse_changes(["snapshot_min_retained=1", "snapshot_retention_ms=1"])
                ),
            )
    assert maintain(spanning, OTHER, "expire_snapshots").results["expire_snapshots.snapshots_expired"] == 1
    assert sql("select id from thermocline.lab.other version as of 'kept'").collect() == [(0,)]
    maintain(spanning, spanning.name, "expire_snapshots")
    assert reader.execute("select count(*) from events").fetchone() == (seen[0],)
    spanning.assert_same_rows()


@pytest.mark.conforms("M-080")
def test_a_keep_heap_table_under_constant_updates_has_no_more_delete_files_than_one_fold_makes(
    make_spanning: Callable[..., Spanning],
) -> None:
    """Mirrored tables come later; their pump writes deletes as folds do."""
    spanning = make_spanning(keep_heap=True)
    spanning.tier()
    counts: list[int] = []
    for add in range(3):
        spanning.both(f"update events set v = v + 1 where id % 4 = {add} and ts < '2026-04-01'")
        spanning.fold()
        if add == 1:
            assert delete_files(spanning) > counts[0]  # without a pass they grow
        counts.append(delete_files(spanning))
        if add:
            assert maintain(spanning, spanning.name, "compact", "rewrite_position_delete_files").status == "done"
            assert delete_files(spanning) == 0
    assert counts[2] <= counts[0]
    spanning.assert_same_rows()
