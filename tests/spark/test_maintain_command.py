"""A whole pass over a lake table that Postgres does not know, from the command line: plan, run, journal, health,
show."""

from __future__ import annotations

import logging
import re
import shutil
from contextlib import closing

import pytest
from tests.commands import CommandResult, RunCommand, run_command
from tests.spark.lake_database import LakeDatabase

from thermocline.lake.read import table_metadata as metadata
from thermocline.maintain.lake_health import collect_health
from thermocline.runtime.settings import Settings

TABLE = "thermocline.lab.readings"


@pytest.fixture
def command(
    lake_database: LakeDatabase, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> RunCommand:
    """Runs a command in this process, whose Spark it shares."""
    monkeypatch.setenv("THERMOCLINE_SPARK_MASTER", "local[2,2]")
    monkeypatch.setenv("THERMOCLINE_WAREHOUSE", str(lake_database.warehouse))
    lake_database.spark.sql("create namespace if not exists thermocline.lab")
    lake_database.spark.sql(
        f"create table {TABLE} (id bigint, day date, note string) using iceberg partitioned by (day)"
    )
    for number in range(6):
        lake_database.spark.sql(
            f"insert into {TABLE} select id, date '2026-01-01', 'n' from range({number * 10}, {number * 10 + 10}, 1, 1)"
        )

    def command(*arguments: str) -> CommandResult:
        return run_command(capsys, *arguments, "--dsn", lake_database.dsn, "--dir", str(lake_database.warehouse.parent))

    assert command("lake", "add", "lab.readings").code == 0
    return command


@pytest.mark.conforms("M-051", "M-152", "M-154", "M-157", "M-174", "M-175", "M-176", "M-177", "M-180")
def test_a_pass_is_planned_run_journaled_and_seen_in_the_health(
    lake_database: LakeDatabase, command: RunCommand
) -> None:
    settings = Settings(dsn=lake_database.dsn, warehouse=str(lake_database.warehouse))
    with closing(lake_database.connect()) as conn:
        collect_health(conn, settings)
    command(
        "policy",
        "lab.readings",
        "--preset",
        "seaweedfs",
        "--set",
        "max_snapshots_to_keep=1",
        "--set",
        "snapshot_retention_ms=1",
    )

    dry = command("maintain", "lab.readings", "--dry-run", "--json").document()
    assert (dry["dry_run"], dry["pass_id"]) == (True, None)
    assert set(dry["bounds"]) == {"floor_snapshot", "floor_holder", "protected_snapshots", "protected_files"}
    assert lake_database.rows("select count(*) from thermocline.op_log") == [(0,)]

    done = command("maintain", "lab.readings", "--json")
    report = done.document()
    assert done.code == 0, report["sentence"]
    assert re.fullmatch(
        r"compact: compacted 6 files into 1 \(across 1 bins\); "
        r"expire_snapshots: expired 6 snapshot\(s\), deleted \d+ unreferenced file\(s\); "
        r"remove_orphans: no orphan files among \d+ listed; "
        r"rewrite_manifests: rewrote 7 manifests into 1 \(1 entries\)",
        report["sentence"],
    )
    assert (
        report["results"]["compact.files_merged"],
        report["results"]["compact.files_written"],
        report["results"]["compact.bins"],
    ) == (
        6,
        1,
        1,
    )
    keys = {
        "compact.duration_ms",
        "expire_snapshots.duration_ms",
        "remove_orphans.duration_ms",
        "rewrite_manifests.duration_ms",
    }
    keys |= {
        "expire_snapshots.snapshots_expired",
        "expire_snapshots.files_deleted",
        "rewritten_files",
        "added_files",
        "expired_snapshots",
    }
    keys |= {
        "remove_orphans.orphans_removed",
        "rewrite_manifests.manifests_rewritten",
        "rewrite_manifests.entries_total",
    }
    keys |= {
        "delete_compacted_files",
        "removed_delete_files",
        "rewritten_manifests",
        "orphan_files_deleted",
        "bytes_read",
        "bytes_written",
    }
    assert keys | {"bytes_freed"} <= set(report["results"])
    ((kept, bounds),) = lake_database.rows("select counters, bounds from thermocline.op_log where kind = 'maintain'")
    assert (kept["rewritten_files"], kept["added_files"], kept["expired_snapshots"]) == (6, 1, 6)
    assert bounds["protected_files"] >= 0

    shown = command("show", "lab.readings", "--json").document()["lake_health"]
    assert (shown["stats"]["files"], shown["stats"]["snapshots"], shown["stats"]["small_files_removed"]) == (1, 2, 6)
    assert {s["operation"]: s["status"] for s in shown["operations"]}["compact"] == "successful"
    text = command("show", "lab.readings").out
    assert "█" in text
    assert "clustering   depth 1 on day" in text
    check_unchanged_needs_no_manifest(lake_database, settings)
    again = command("maintain", "lab.readings", "--operations", "compact")
    assert again.out.startswith("compact: no files eligible for compaction")


def check_unchanged_needs_no_manifest(lake_database: LakeDatabase, settings: Settings) -> None:
    """With every manifest out of the way, the health of an unchanged table is still collected."""
    folder = next(lake_database.warehouse.glob("lab/readings*/metadata"))
    metadata.forget_cached_tables()
    hidden = folder.rename(folder.with_name("hidden"))
    folder.mkdir()
    for file in hidden.glob("*.json"):
        shutil.copy(file, folder)
    with closing(lake_database.connect()) as conn:
        collect_health(conn, settings)
        collected = conn.execute(
            "select problem, checked_at > at from thermocline.lake_stats order by id desc limit 1"
        ).fetchone()
    shutil.rmtree(folder)
    hidden.rename(folder)
    assert collected == (None, True)


@pytest.mark.conforms("M-155")
@pytest.mark.usefixtures("command")
def test_a_warning_is_logged_once_when_it_comes_and_once_when_it_goes(
    lake_database: LakeDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(dsn=lake_database.dsn, warehouse=str(lake_database.warehouse))
    lake_database.spark.sql(f"alter table {TABLE} set tblproperties ('history.expire.min-snapshots-to-keep' = 'few')")
    with closing(lake_database.connect()) as conn, caplog.at_level(logging.INFO, logger="thermocline.health"):
        for _ in range(3):
            collect_health(conn, settings)
        assert conn.execute(
            "select jsonb_array_length(warnings) from thermocline.lake_stats order by id desc limit 1"
        ).fetchone() == (1,)
        lake_database.spark.sql(f"alter table {TABLE} unset tblproperties ('history.expire.min-snapshots-to-keep')")
        for _ in range(2):
            collect_health(conn, settings)
    logged = [(record.levelname, record.getMessage().split(" = ")[0]) for record in caplog.records]
    what = "table property history.expire.min-snapshots-to-keep"
    assert logged == [("WARNING", f"lab.readings: {what}"), ("INFO", f"lab.readings: no longer: {what}")]
