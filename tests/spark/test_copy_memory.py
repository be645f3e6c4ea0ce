"""Memory of tiering: bounded by what it was told, whatever the partition's size."""

from __future__ import annotations

import base64
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.spark.lake_database import LakeDatabase

from thermocline.core.names import TableName
from thermocline.spark.kernels.copy_partition import CopyTask

LIMIT_BYTES = 48 << 20
TARGET_BYTES = 32 << 20
ROW_BYTES = 16 << 10
ROWS = 10 * LIMIT_BYTES // ROW_BYTES + 1
# Blocks that no codec can make smaller, each row's its own by its first bytes; stored outside the row, as they are.
WIDE = """
create table public.wide (id bigint not null, ts timestamptz not null, raw bytea not null);
alter table public.wide alter column raw set storage external;
create temp table blocks (b integer primary key, raw bytea not null);
alter table blocks alter column raw set storage external;
insert into blocks
select b, (select string_agg(sha512(concat_ws(',', b, n, random())::bytea), ''::bytea)
    from generate_series(1, {pieces}) n)
  from generate_series(0, 499) b;
insert into public.wide
select i, '2026-01-01'::timestamptz + (i * 7919 % {rows}) * interval '1 s',
    int8send(i) || (select b.raw from blocks b where b.b = i % 500)
  from generate_series(1, {rows}) i;
"""


def _copy_alone(task: CopyTask) -> dict[str, Any]:
    child = Path(__file__).with_name("copy_child.py")
    sent = base64.b64encode(pickle.dumps(task)).decode()
    ended = subprocess.run(
        [sys.executable, str(child)], input=sent, capture_output=True, text=True, timeout=240, check=True
    )
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


@pytest.mark.conforms("C-065")
def test_a_partition_ten_times_the_memory_limit_is_moved_in_files_of_the_target_size(
    lake_database: LakeDatabase,
) -> None:
    """One task for all of it. A kernel that collected the partition, or let one buffer grow with it, would hold ten
    times the limit."""
    lake_database.run(WIDE, rows=str(ROWS), pieces=str(ROW_BYTES // 64))
    ((size,),) = lake_database.rows("select pg_total_relation_size('public.wide')")
    assert size > 10 * LIMIT_BYTES
    name = TableName("public", "wide")
    columns = lake_database.columns(name, ("id", "ts"))
    head = lake_database.make_lake(name, columns, "month", "ts")
    with lake_database.snapshot() as snapshot:
        changes: dict[str, Any] = {
            "ranges": [(0, None)],
            "memory_bytes": LIMIT_BYTES,
            "target_file_bytes": TARGET_BYTES,
        }
        (task,) = lake_database.tasks(head, columns, "ts", snapshot, **changes)
        told = _copy_alone(task)
    assert (told["rows"], told["is_exact"]) == (ROWS, True)
    assert told["grown_bytes"] < LIMIT_BYTES
    *full, last = told["sizes"]
    row_group_bytes = LIMIT_BYTES // 8
    assert len(full) >= 10
    assert all(TARGET_BYTES <= size <= TARGET_BYTES + row_group_bytes for size in full)
    assert 0 < last <= TARGET_BYTES + row_group_bytes
