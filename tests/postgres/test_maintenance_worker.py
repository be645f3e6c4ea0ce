"""Forced passes and passes that are due, as a worker serves them; health of tables that nobody maintains."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from thermocline.catalog.maintenance import forced_passes as queue
from thermocline.catalog.maintenance.lake_tables import add_lake_table, read_maintained
from thermocline.catalog.maintenance.passes import pass_lock
from thermocline.catalog.maintenance.policies import NamespaceScope, apply_policy
from thermocline.catalog.safety import Owner
from thermocline.core.columns import LakeColumn
from thermocline.core.names import TableName
from thermocline.core.policy.operations import ALL_DISABLED
from thermocline.core.policy.policy_layers import change_policy, parse_changes
from thermocline.errors import WaitedTooLong
from thermocline.errors.maintenance import FolderInUse
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.lake.commit.create_table import create_lake_table
from thermocline.maintain.janitor import remove_leftover_lakes
from thermocline.maintain.lake_health import collect_health, read_health
from thermocline.maintain.pass_requests import force_pass
from thermocline.maintain.run_pass import PassRequest
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.settings import Settings
from thermocline.worker.loop import Worker
from thermocline.worker.maintenance import MaintenanceThreads, serve_due, serve_forced

NAMES = [TableName("lab", name) for name in ("a", "b", "c")]
OFF = [
    f"{key}_enabled=false"
    for key in ("rewrite", "delete_compaction", "manifest_rewrite", "snapshot_expiry", "orphan_sweep")
]


def no_spark() -> SparkSession:
    raise AssertionError("every operation is switched off here")


@pytest.fixture
def conn(database: str, tmp_path: Path) -> Iterator[psycopg.Connection[Any]]:
    """Three lake tables under maintenance, with every operation switched off, so that passes need no Spark."""
    column = LakeColumn(
        name="id", field_id=1, base_type="int8", pg_type="bigint", lake_type="long", form="native", required=True
    )
    with closing(connect(database, autocommit=True)) as conn:
        for name in NAMES:
            made = create_lake_table(str(tmp_path), name, (column,), "id", "none", table_uuid=uuid.uuid4())
            lake_catalog().insert_table(conn, name, made.metadata_location)
            add_lake_table(conn, name)
        apply_policy(conn, NamespaceScope(), lambda before: change_policy(before, parse_changes(OFF)))
        yield conn


def threads(database: str, tmp_path: Path, **settings: Any) -> MaintenanceThreads:
    chosen = Settings(dsn=database, warehouse=str(tmp_path), **settings)
    return MaintenanceThreads(database, chosen, no_spark, "w1", threading.Event())


def owners(conn: psycopg.Connection[Any]) -> dict[str, Owner]:
    return {one.lake.table: one.owner for one in read_maintained(conn)}


@pytest.mark.conforms("M-148")
def test_one_request_per_table_waits_is_refreshed_claimed_once_and_never_run_beside_another_pass(
    conn: psycopg.Connection[Any], database: str, tmp_path: Path
) -> None:
    worker, owner = threads(database, tmp_path), owners(conn)["a"]
    first = queue.file_forced_pass(conn, owner, {"operations": []})
    assert queue.file_forced_pass(conn, owner, {"operations": ["compact"]}) == first
    with closing(connect(database, autocommit=True)) as other:
        with pass_lock(other, owner, "a"):
            assert serve_forced(worker, conn) == 0
        seen = queue.read_forced_pass(conn, first)
        assert seen is not None
        assert seen.state == "pending"
        taken = [queue.take_forced_pass(conn, "w1"), queue.take_forced_pass(other, "w2")]
    assert [found is not None for found in taken] == [True, False]
    assert taken[0] is not None
    assert taken[0].request == {"operations": ["compact"]}


@pytest.mark.conforms("M-148")
def test_of_many_workers_one_claims_a_request_and_no_scheduled_pass_runs_beside_a_forced_one(
    conn: psycopg.Connection[Any], database: str, tmp_path: Path
) -> None:
    owner = owners(conn)["a"]
    request = queue.file_forced_pass(conn, owner, {"operations": []})

    def claim(worker: int) -> bool:
        with closing(connect(database, autocommit=True)) as mine:
            barrier.wait(timeout=60)
            return queue.take_forced_pass(mine, f"w{worker}") is not None

    barrier = threading.Barrier(8)
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(claim, range(8))) == 1
    queue.schedule_new_tables(conn, 3600)
    conn.execute("update thermocline.maintenance_schedule set next_at = now()")
    with closing(connect(database, autocommit=True)) as forced, pass_lock(forced, owner, "a"):
        assert serve_due(threads(database, tmp_path), conn) == 2  # the two other tables
    ran = conn.execute("select count(*) from thermocline.op_log where lake_id = %s", [owner.lake_id]).fetchone()
    assert ran == (0,)
    seen = queue.read_forced_pass(conn, request)
    assert seen is not None
    assert (
        seen.state == "pending"
    )  # taken up again from a worker that is no more, and given back while the table is busy


@pytest.mark.conforms("M-041", "M-106")
def test_with_maintenance_off_health_is_collected_and_files_of_failed_work_are_deleted_after_their_tables_grace(
    conn: psycopg.Connection[Any], database: str, tmp_path: Path
) -> None:
    """Loads come later; what they leave in the journal is what any failed operation leaves."""
    settings = Settings(dsn=database, warehouse=str(tmp_path), maintenance_enabled=False, staged_grace_seconds=3600)
    old, young, patient = tmp_path / "old.parquet", tmp_path / "young.parquet", tmp_path / "patient.parquet"
    apply_policy(conn, owners(conn)["a"], lambda before: change_policy(before, parse_changes(["orphan_grace_hours=1"])))
    for path, hours, name in ((old, 2, "a"), (young, 0, "a"), (patient, 2, "b")):
        path.write_bytes(b"never committed")
        op_id = uuid.uuid4()
        conn.execute(
            "insert into thermocline.op_log (op_id, lake_id, kind, phase, worker, started_at, changed_at)"
            " values (%s, %s, 'load', 'abandoned', 'w', now() - make_interval(hours => %s), now() - "
            "make_interval(hours => %s))",
            [op_id, owners(conn)[name].lake_id, hours, hours],
        )
        conn.execute(
            (
                "insert into thermocline.staged_files (path, lake_id, op_id, at) values (%s, %s, %s, now() - "
                "make_interval(hours => %s))"
            ),
            [f"file:{path}", owners(conn)[name].lake_id, op_id, hours],
        )
    queue.schedule_new_tables(conn, 3600)
    conn.execute("update thermocline.maintenance_schedule set next_at = now()")
    worker = MaintenanceThreads(database, settings, no_spark, "w1", threading.Event())
    serve_due(worker, conn)
    assert collect_health(conn, settings) == 3
    assert Worker(database, settings).run_cycle(conn)
    assert (old.exists(), young.exists(), patient.exists()) == (False, True, True)
    assert conn.execute("select count(*) from thermocline.op_log where kind = 'maintain'").fetchone() == (0,)
    health = conn.execute("select count(*), bool_and(problem is null) from thermocline.lake_stats").fetchone()
    assert health == (3, True)
    assert read_health(database, NAMES[0], settings).stats["orphan_estimate"] == 1


def test_a_leftover_folder_that_a_table_uses_under_another_spelling_stays(
    conn: psycopg.Connection[Any], tmp_path: Path
) -> None:
    (place,) = [path.parent for path in tmp_path.rglob("metadata") if path.parent.name.startswith("a-")]
    (tmp_path / "way").symlink_to(tmp_path)
    free = tmp_path / "gone"
    free.mkdir()
    for spelled in (
        f"file:{place.parent}//{place.name}",
        f"file://{tmp_path}/way/{place.relative_to(tmp_path)}",
        f"file://{free}",
    ):
        conn.execute(
            "insert into thermocline.lake_leftovers (location, at) values (%s, now() - interval '1 day')", [spelled]
        )
    with pytest.raises(FolderInUse, match="lies in it"):
        remove_leftover_lakes(conn, 0)
    assert list(place.glob("metadata/*.json"))
    assert not free.exists()
    assert conn.execute("select count(*) from thermocline.lake_leftovers").fetchone() == (2,)


def test_a_request_of_a_dead_worker_is_pending_again(
    conn: psycopg.Connection[Any], database: str, tmp_path: Path
) -> None:
    owner = owners(conn)["a"]
    request = queue.file_forced_pass(conn, owner, {})
    assert queue.take_forced_pass(conn, "a worker that is no more")
    assert serve_forced(threads(database, tmp_path), conn) == 1
    seen = queue.read_forced_pass(conn, request)
    assert seen is not None
    assert seen.result is not None
    assert (seen.state, seen.result["sentence"]) == ("done", ALL_DISABLED)


@pytest.mark.conforms("M-147")
def test_a_forced_pass_waits_for_its_worker_and_the_request_stays_past_the_limit(
    conn: psycopg.Connection[Any], database: str, tmp_path: Path
) -> None:
    worker = threads(database, tmp_path)
    with closing(connect(database, autocommit=True, application_name="thermocline worker")) as alive:
        alive.execute(
            "insert into thermocline.workers (name, pid, host, backend_pid) values ('w1', 1, 'h', pg_backend_pid())"
        )
        with pytest.raises(WaitedTooLong) as waited:
            force_pass(database, NAMES[0], settings=worker.settings, request=PassRequest(), timeout_seconds=0.3)
        assert waited.value.exit_code == 124
        assert conn.execute("select state from thermocline.maintenance_requests").fetchall() == [("pending",)]
        server = threading.Timer(0.3, lambda: _serve(worker, database))
        server.start()
        report = force_pass(database, NAMES[0], settings=worker.settings, request=PassRequest(), timeout_seconds=60)
        server.join()
    assert report["sentence"] == ALL_DISABLED


def _serve(worker: MaintenanceThreads, database: str) -> None:
    with closing(connect(database, autocommit=True)) as conn:
        serve_forced(worker, conn)


@pytest.mark.conforms("M-146")
def test_every_table_gets_a_pass_per_interval_at_times_of_its_own(
    conn: psycopg.Connection[Any], database: str, tmp_path: Path
) -> None:
    worker = threads(database, tmp_path)
    assert serve_due(worker, conn) == 0
    first = conn.execute("select next_at, now() from thermocline.maintenance_schedule").fetchall()
    assert len({at for at, _ in first}) == 3
    assert all(0 <= (at - now).total_seconds() <= 3600 for at, now in first)
    conn.execute("update thermocline.maintenance_schedule set next_at = now()")
    assert serve_due(worker, conn) == 3
    assert serve_due(worker, conn) == 0
    waits = [
        (at - now).total_seconds()
        for at, now in conn.execute("select next_at, now() from thermocline.maintenance_schedule").fetchall()
    ]
    assert len(set(waits)) == 3
    assert all(3600 * 0.89 <= wait <= 3600 * 1.1 for wait in waits)


@pytest.mark.conforms("M-145")
def test_tables_that_gain_most_per_byte_come_first(
    conn: psycopg.Connection[Any], database: str, tmp_path: Path
) -> None:
    for name, gain in (("a", 0.1), ("b", 7.5), ("c", 2)):
        conn.execute(
            (
                "insert into thermocline.lake_stats (lake_id, stats) values (%s, "
                "jsonb_build_object('gain_per_mb', %s::float8))"
            ),
            [owners(conn)[name].lake_id, gain],
        )
    queue.schedule_new_tables(conn, 3600)
    conn.execute("update thermocline.maintenance_schedule set next_at = now()")
    assert serve_due(threads(database, tmp_path), conn) == 3
    ran = conn.execute(
        "select l.name from thermocline.op_log o join thermocline.lake_tables l on l.id = o.lake_id order by "
        "o.started_at"
    )
    assert [row[0] for row in ran] == ["b", "c", "a"]


@pytest.mark.conforms("M-036")
def test_switched_off_by_the_environment_no_scheduled_pass_runs_but_on_the_table_that_is_switched_on(
    conn: psycopg.Connection[Any], database: str, tmp_path: Path
) -> None:
    worker = threads(database, tmp_path, maintenance_enabled=False)
    apply_policy(
        conn, owners(conn)["b"], lambda before: change_policy(before, parse_changes(["maintenance_enabled=true"]))
    )
    queue.schedule_new_tables(conn, 3600)
    conn.execute("update thermocline.maintenance_schedule set next_at = now()")
    serve_due(worker, conn)
    ran = conn.execute(
        "select l.name from thermocline.op_log o join thermocline.lake_tables l on l.id = o.lake_id"
    ).fetchall()
    assert ran == [("b",)]


@pytest.mark.conforms("M-156")
def test_health_is_collected_for_lake_tables_also_with_maintenance_off_and_an_unreadable_one_does_not_end_it(
    conn: psycopg.Connection[Any], database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(dsn=database, warehouse=str(tmp_path), maintenance_enabled=False)
    conn.execute(
        "update thermocline_iceberg.iceberg_tables set metadata_location = '/nowhere/v1.metadata.json' where "
        "table_name = 'b'"
    )
    with caplog.at_level(logging.INFO, logger="thermocline.health"):
        for _ in range(2):
            assert collect_health(conn, settings) == 3
    rows = conn.execute(
        "select l.name, s.problem is null, s.stats ->> 'files', s.policy ->> 'maintenance_enabled'"
        " from thermocline.lake_stats s join thermocline.lake_tables l on l.id = s.lake_id order by 1"
    ).fetchall()
    assert rows == [("a", True, "0", "false"), ("b", False, None, None), ("c", True, "0", "false")]
    assert len([record for record in caplog.records if "cannot be read" in record.getMessage()]) == 1
    report = read_health(database, NAMES[0], settings)
    assert report.stats["snapshots"] == 0
    assert {status.status for status in report.operations} == {"not yet run"}
