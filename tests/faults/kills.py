"""Kill a child process at a fault point, write to every tier, and check what a restart leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.faults.borrowed_spark import lend_spark
from tests.faults.points import ALL
from tests.twin import Spanning

from thermocline.maintain.janitor import remove_stray_files
from thermocline.runtime.pg import connect_as_typed as connect


def kill_at(spanning: Spanning, point: str, child: str = "tier_child", *, own_spark: bool = ALL) -> int:
    """Run a cycle in a child that ends at the point, in the test's Spark or in one that loses its driver and ends; its
    exit status."""
    settings = spanning.settings.model_copy(update={"spark_driver_memory": "1g"})
    done = subprocess.run(
        [sys.executable, "-m", f"tests.faults.{child}", settings.model_dump_json()],
        env={**os.environ, "THERMOCLINE_TEST_KILL_AT": point, **({} if own_spark else lend_spark(spanning.spark()))},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, (
        f"the child was not killed at {point}: {done.stdout}\n{done.stderr[-2000:]}"
    )
    return done.returncode


def write_everywhere(spanning: Spanning, round_number: int) -> None:
    """Inserts, updates, deletes and moves in every month, whatever tier it is in just now."""
    for month in range(1, 5):
        key = 10_000 * round_number + month
        low = 120 * (month - 1) + 20 * round_number
        spanning.both(
            f"insert into events (id, ts, v) values ({key}, '2026-0{month}-17 03:00+00', {month}) returning *"
        )
        spanning.both(
            f"update events set v = v + 1, note = 'round {round_number}' where id between {low} and {low + 3} "
            "returning *"
        )
        spanning.both(f"delete from events where id between {low + 4} and {low + 5} returning id, v")
        spanning.both(f"update events set ts = ts + interval '40 days' where id = {low + 6} returning *")


def assert_nothing_left_over(spanning: Spanning) -> None:
    """Every op is finished, every partition tiered or dropped, and every file on storage is in the table or gone after
    the janitor."""
    assert spanning.query("select count(*) from thermocline.op_log where phase not in ('published', 'abandoned')") == [
        (0,)
    ]
    assert spanning.query("select count(*) from thermocline.partitions where state in ('sealing', 'tiering')") == [(0,)]
    assert spanning.query("select count(*) from thermocline.cutline where s is not null and seam_line >= t") == [(1,)]
    with connect(spanning.dsn, autocommit=True) as conn:
        remove_stray_files(conn, grace_seconds=0)
    assert spanning.query("select count(*) from thermocline.staged_files") == [(0,)]
    known = {
        row.file_path.split("/data/")[1]
        for row in spanning.spark().sql("select file_path from thermocline.public.events.files").collect()
    }
    root = Path(spanning.settings.warehouse_location)
    present = {str(path).split("/data/")[1] for path in root.rglob("*.parquet")}
    assert present == known
    snapshots = spanning.spark().sql("select count(*) from thermocline.public.events.snapshots").collect()[0][0]
    assert snapshots == spanning.query("select count(*) from thermocline.published")[0][0]


def assert_all_folded(spanning: Spanning) -> None:
    """The delta is empty below the cut-line, and the lake alone holds what the twin holds there."""
    ((line,),) = spanning.query("select thermocline.key_timestamptz(t) from thermocline.cutline")
    pending = spanning.seam.execute(
        "select count(*) from thermocline_delta.public__events where ts < %s and _folded is null", [line]
    )
    assert pending.fetchall() == [(0,)]
    lake = (
        spanning.spark().sql("select count(*), sum(v), sum(id), count(note) from thermocline.public.events").collect()
    )
    expected = spanning.twin.execute(
        "select count(*), sum(v), sum(id), count(note) from events where ts < %s", [line]
    ).fetchall()
    assert [tuple(row) for row in lake] == expected


EAGER_POLICY = {
    "rewrite_min_input_files": 2,
    "snapshot_min_retained": 1,
    "manifest_rewrite_min_manifests": 1,
    "orphan_sweep_enabled": True,
}
