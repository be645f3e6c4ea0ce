"""verify: agreement after any history, and every kind of damage found, by range and key, with exit code 1."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.twin import Spanning

from thermocline.core.verification import VerifyReport
from thermocline.ops.fold import fold
from thermocline.ops.verify.verify_table import verify


def _verify(spanning: Spanning) -> VerifyReport:
    return verify(spanning.dsn, spanning.name)


@pytest.mark.conforms("C-198")
def test_both_tiers_agree_through_a_history_of_tiering_corrections_and_folds(spanning: Spanning) -> None:
    assert _verify(spanning).is_exact
    spanning.tier()
    report = _verify(spanning)
    assert report.is_exact, report.sentence
    assert sum(verdict.rows for verdict in report.ranges) == 359
    spanning.both("update events set v = v + 1, note = null where id % 7 = 0")
    spanning.both("delete from events where id % 11 = 0")
    spanning.both(
        "insert into events (id, ts, v) values (900, '2026-02-10 00:00+00', 1), (901, '2020-01-01 00:00+00', 2)"
    )
    report = _verify(spanning)
    assert report.is_exact, report.sentence
    fold(spanning.dsn, spanning.name, settings=spanning.settings, spark=spanning.spark)
    spanning.both("update events set v = 5 where id = 14")
    report = _verify(spanning)
    assert report.is_exact, report.sentence
    expected = spanning.twin.execute("select count(*) from events where ts < '2026-04-01 00:00+00'").fetchall()
    assert [(sum(verdict.rows for verdict in report.ranges),)] == expected


@pytest.mark.conforms("C-198")
def test_a_byte_flipped_within_a_lake_file_is_found(spanning: Spanning) -> None:
    """The file keeps its size, and every reader of it sees the same wrong values: only the sum taken at tiering knows
    better."""
    spanning.tier()
    path = max(Path(spanning.settings.dir).rglob("*.parquet"), key=lambda found: found.stat().st_size)
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    with path.open("r+b") as file:
        file.seek(column.data_page_offset + column.total_compressed_size * 3 // 4)
        (byte,) = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    report = _verify(spanning)
    assert not report.is_exact
    assert "events_2026_0" in report.sentence or path.name in report.sentence


@pytest.mark.conforms("C-198")
def test_files_that_do_not_hold_what_the_journal_noted_are_named_by_partition(spanning: Spanning) -> None:
    spanning.tier()
    assert _verify(spanning).notes == ()
    spanning.seam.execute("update thermocline.op_log set counters = jsonb_set(counters, '{sums,1,total}', '\"12345\"')")
    (problem,) = _verify(spanning).problems
    assert problem.startswith("public.events_2026_02: its files hold")
    spanning.seam.execute("update thermocline.op_log set counters = jsonb_set(counters, '{sums,1,hash}', '0')")
    told = _verify(spanning)
    assert told.is_exact
    assert told.notes == (
        "public.events_2026_02: its sum was noted with another hash; it is compared with what readers see alone",
    )
    spanning.seam.execute("update thermocline.op_log set counters = jsonb_set(counters, '{sums,1,files}', '99')")
    (problem,) = _verify(spanning).problems
    assert "of the 99 files" in problem


@pytest.mark.conforms("C-198")
def test_a_file_that_is_missing_or_cut_short_is_named(spanning: Spanning) -> None:
    spanning.tier()
    first, second, *_ = sorted(Path(spanning.settings.dir).rglob("*.parquet"))
    first.rename(first.with_suffix(".gone"))
    os.truncate(second, 100)
    report = _verify(spanning)
    assert len(report.problems) == 2
    assert f"{first.name} is missing" in report.sentence
    assert f"{second.name} has 100 bytes" in report.sentence


@pytest.mark.conforms("C-198")
def test_a_row_that_the_heap_and_the_lake_hold_differently_is_named_by_its_key(
    make_spanning: Callable[..., Spanning],
) -> None:
    """A change that slipped past the capture trigger, in a partition that is tiered and still in the heap."""
    spanning = make_spanning(reclaim_lag="365d")
    spanning.tier()
    with spanning.session("public", autocommit=True) as conn:
        conn.execute("alter table public.events_2026_02 disable trigger thermocline_capture")
        conn.execute("update public.events_2026_02 set v = v + 1 where id = 150")
        conn.execute("delete from public.events_2026_02 where id = 151")
    report = _verify(spanning)
    failed = [verdict for verdict in report.ranges if verdict.problem]
    assert [verdict.range for verdict in failed] == ["public.events_2026_02"]
    assert sorted(key.split(",")[0] for key in failed[0].keys) == ["(150", "(151"]


@pytest.mark.conforms("C-198", "O-028")
def test_the_command_prints_a_verdict_and_leaves_with_1_on_a_difference(spanning: Spanning) -> None:
    spanning.tier()
    base = [sys.executable, "-m", "thermocline", "verify"]
    done = subprocess.run(
        [*base, "--all", "--json", "--dsn", spanning.dsn], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (document,) = json.loads(done.stdout)
    assert document["ok"]
    next(Path(spanning.settings.dir).rglob("*.parquet")).unlink()
    done = subprocess.run([*base, "public.events", "--dsn", spanning.dsn], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "FAIL" in done.stdout
    assert subprocess.run([*base, "--dsn", spanning.dsn], capture_output=True, check=False).returncode == 2


@pytest.mark.conforms("C-198")
@pytest.mark.parametrize(
    ("kind", "bounds"),
    [
        ("smallint", ("minvalue", "-10", "10", "20")),
        ("bigint", ("-5000000000", "0", "10", "20")),
        ("date", ("'2026-01-01'", "'2026-02-01'", "'2026-03-01'", "'2026-04-01'")),
    ],
)
def test_every_kind_of_tier_key_is_compared(
    make_spanning: Callable[..., Spanning], kind: str, bounds: tuple[str, ...]
) -> None:
    table = (
        "create table {schema}.events (id integer not null, k " + kind + " not null, note text, primary key (k, id))"
    )
    pieces = list(pairwise(bounds))
    partitions = "".join(
        f"create table public.e{at} partition of public.events for values from ({lo}) to ({hi});"
        for at, (lo, hi) in enumerate(pieces)
    )
    start = "date '2025-12-31' + 10 * i" if kind == "date" else "-20 + 4 * i"
    low = "where i > 0" if kind == "date" else ""
    rows = f"insert into events select i, {start}, 'row ' || i from generate_series(0, 8) i {low}"
    spanning = make_spanning(table=table, partitions=partitions, partition_by="range (k)", rows=rows)
    assert len(spanning.tier().moved) == 2
    spanning.both("update events set note = null where id = 3")
    spanning.both("delete from events where id = 4")
    report = _verify(spanning)
    assert report.is_exact, report.sentence
    expected = spanning.twin.execute(f"select count(*) from events where k < {bounds[2]}".encode()).fetchall()
    assert [(sum(verdict.rows for verdict in report.ranges),)] == expected


@pytest.mark.conforms("C-087", "C-091", "C-095", "C-198")
def test_keep_heap_compares_the_heap_itself_with_the_lake(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(keep_heap=True)
    spanning.tier()
    for statement in (
        "update public.events set v = v + 1 where id % 7 = 0",
        "delete from public.events where id % 11 = 0",
        "insert into public.events (id, ts, v) values (900, '2026-02-10 00:00+00', 1)",
    ):
        spanning.seam.execute(statement.encode())
    report = _verify(spanning)
    assert report.is_exact, report.sentence
    assert {verdict.yardstick for verdict in report.ranges} == {"heap"}
    spanning.seam.execute("alter table public.events_2026_01 disable trigger thermocline_capture")
    spanning.seam.execute("update public.events set note = 'slipped by' where id = 100")
    spanning.seam.execute("alter table public.events_2026_01 enable always trigger thermocline_capture")
    (failed,) = [verdict for verdict in _verify(spanning).ranges if verdict.problem]
    assert [key.split(",")[0] for key in failed.keys] == ["(100"]
