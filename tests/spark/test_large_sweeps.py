"""Sweeps of many files: a few bytes of memory for each, and on from where the last one was cut off."""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.maintenance_ops import run_remove_orphans
from tests.spark.lake_database import LakeDatabase
from tests.spark.swept_table import SweptTable, make_lake

from thermocline.maintain.operations import remove_orphans as orphans_module

LIMIT_BYTES = 512 << 20
MILLION = 1_000_000


@pytest.fixture
def lake(lake_database: LakeDatabase) -> Iterator[SweptTable]:
    with make_lake(lake_database) as lake:
        yield lake


def leave_many(lake: SweptTable, folder: str, count: int) -> None:
    place = lake.folder / folder
    place.mkdir(parents=True, exist_ok=True)
    old = time.time() - 30 * 24 * 3600
    for at in range(count):
        path = place / f"00000-{at:08}-left-behind.parquet"
        path.touch()
        os.utime(path, (old, old))


@pytest.mark.conforms("M-108")
def test_a_million_files_fit_into_the_memory_limit(lake: SweptTable) -> None:
    """By what each file more costs, all of them in one folder and all orphans; a million are swept in bench/upkeep."""
    lake.append(1)

    def peak(count: int) -> int:
        leave_many(lake, "data/left", count)
        tracemalloc.start()
        done = run_remove_orphans(lake.context())
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert done.counters["orphans_removed"] == count
        return top

    peak(6_000)  # pays for what is made once: four megabytes, which the difference would take for files
    few, many = peak(1_000), peak(6_000)
    per_file = max(many - few, 0) / 5_000
    assert few + per_file * MILLION < LIMIT_BYTES / 2, f"{per_file:.0f} bytes per file"
    assert lake.rows() == [(1, "row 1")]


class CutOff(Exception):
    pass


@pytest.mark.conforms("M-108")
def test_a_sweep_that_is_cut_off_goes_on_where_it_was_and_judges_anew_what_it_had_found(
    lake: SweptTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans_module, "_SAVE_EVERY_SECONDS", 0)
    lake.append(1)
    first, second = lake.leave("data/a/one.parquet", hours=24 * 9), lake.leave("data/b/two.parquet", hours=24 * 9)
    needed = lake.leave("data/a/needed.parquet", hours=24 * 9)

    def cut_off(_told: object) -> None:
        if lake.conn.execute("select after_folder from thermocline.sweeps").fetchone() == ("data/a",):
            raise CutOff

    with pytest.raises(CutOff):
        run_remove_orphans(replace(lake.context(), report_progress=cut_off))
    assert first.exists()
    assert second.exists()
    unseen = lake.leave("data/a/unseen.parquet", hours=24 * 9)  # in a folder that is done
    lake.conn.execute(
        "insert into thermocline.staged_files (path, lake_id, op_id) values (%s, %s, gen_random_uuid())",
        [f"file:{needed}", lake.lake_id],
    )
    done = run_remove_orphans(lake.context())
    assert done.counters["orphans_removed"] == 2
    assert [path.exists() for path in (first, second, needed, unseen)] == [False, False, True, True]
    assert lake.conn.execute("select count(*) from thermocline.sweeps").fetchone() == (0,)
    assert lake.conn.execute("select count(*) from thermocline.sweep_candidates").fetchone() == (0,)
    assert run_remove_orphans(lake.context()).counters["orphans_removed"] == 1
    assert [path.exists() for path in (needed, unseen)] == [True, False]
