"""The copy on a cluster: executors are processes of their own, and the tasks run there."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

from tests.spark.lake_database import LakeDatabase

from thermocline.core.names import TableName

EVENTS = TableName("public", "events")
PROGRAM = Path(__file__).with_name("local_cluster.py")


def test_a_partition_is_tiered_by_two_executors(lake_database: LakeDatabase, tmp_path: Path) -> None:
    lake_database.run(
        "create table public.events (id bigint not null, ts timestamptz not null, v numeric(10,2));"
        "insert into public.events select i, '2026-01-01'::timestamptz + i * interval '1 s', i / 100.0 from "
        "generate_series(1, 100000) i"
    )
    columns = lake_database.columns(EVENTS, ("id", "ts"))
    head = lake_database.make_lake(EVENTS, columns, "day", "ts")
    with lake_database.snapshot() as snapshot:
        tasks = tmp_path / "tasks.pickle"
        tasks.write_bytes(
            pickle.dumps(lake_database.tasks(head, columns, "ts", snapshot, ranges=[(0, 100), (100, 300), (300, None)]))
        )
        done = subprocess.run(
            [sys.executable, PROGRAM, lake_database.dsn, str(lake_database.warehouse), str(tasks)],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["exact"], told["rows"], told["executors"]) == (True, 100_000, 2)
