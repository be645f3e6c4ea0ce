"""How much of a budget two tasks use that share it: files of two partitions rewritten at 20 MB/s, each piece of I/O
noted as it ends."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from bench.figures import Figure, compare, within
from bench.lake_place import Place, run_compact, say
from bench.sealed_windows import EAGER
from thermocline.core.maintenance.pacing import MB, plan_pace
from thermocline.core.policy.policy import Policy
from thermocline.parquet.rewrite_task import BinResult, BinTask
from thermocline.spark.kernels.compact_bin import run_bin

BUDGET_MB = 20.0
_ROWS = 160_000
_RANDOM = ", ".join(f"sha2(concat('{salt}', id), 512)" for salt in range(3))


def run_paced(place: Place) -> Iterator[Figure]:
    """Two bins of about 60 MB, two tasks."""
    say("making two partitions to be rewritten within a budget")
    place.spark.sql("create namespace if not exists thermocline.bench")
    place.spark.sql(
        "create table thermocline.bench.paced (id bigint, body string, part int) using iceberg partitioned by (part)"
        " tblproperties ('write.distribution-mode' = 'none')"
    )
    for part in range(2):
        place.spark.sql(
            f"insert into thermocline.bench.paced select id, concat_ws('', {_RANDOM}), {part} from range(0, "
            f"{_ROWS}, 1, 2)"
        )
    folder = place.directory / "paced"
    folder.mkdir()
    pace = plan_pace(Policy(max_read_mb_per_s=BUDGET_MB))
    told = run_compact(replace(place.context("paced", EAGER), pace=lambda: pace), _noting(folder))
    assert told.counters["bins"] == 2, told
    pieces = [piece for path in folder.iterdir() for piece in json.loads(path.read_text())]
    seconds = max(at for at, _ in pieces) - min(at for at, _ in pieces)
    rate = sum(read for _, read in pieces) / MB / seconds
    yield within(f"read by two tasks within {BUDGET_MB:g} MB/s", rate, BUDGET_MB, "MB/s")
    yield compare("of which used", [rate], "the budget", [BUDGET_MB], "MB/s", 0.9)


def _noting(folder: Path) -> Callable[[BinTask, Callable[[str], None], Callable[[int, int], None]], BinResult]:
    def kernel(task: BinTask, register: Callable[[str], None], pace: Callable[[int, int], None]) -> BinResult:
        pieces = [(time.time(), 0)]

        def noted(read: int, written: int) -> None:
            pace(read, written)
            pieces.append((time.time(), read))

        result = run_bin(task, register, noted)
        (folder / str(task.number)).write_text(json.dumps(pieces))
        return result

    return kernel
