"""Compaction that orders rows: sort and z-order beside Iceberg's own, what they cost over bin-pack, and what they save
readers.

The first two figures are measured as in `compaction`, on the same kind of table. The cost is told beside our own
bin-pack of the same table, re-encoded, at the same target (BENCH_COMPACTION_RUNS runs each). For the last figure the
table is compacted to 64 files or so, by each strategy, and the files that Iceberg plans for a condition on two columns
are counted.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pyiceberg.table import StaticTable

from bench.compaction import EAGER, RUNS, Case, make_table, measure, read_head, read_rows, run_ours
from bench.figures import Figure, compare, fewer
from bench.lake_place import Place, open_place, say
from thermocline.core.names import TableName
from thermocline.lake.commit.compare_and_swap import load_table

_BY_SCORE = replace(EAGER, rewrite_strategy="sort", sort_order="score")
_BY_BOTH = replace(EAGER, rewrite_strategy="zorder", zorder_columns=("score", "id"))
"""Iceberg's procedure takes no decimals."""
_NARROW = replace(EAGER, rewrite_strategy="zorder", zorder_columns=("score", "amount"))
"""Neither column is in any order in the table."""
_ENCODED = replace(EAGER, splice_min_row_group_bytes=1 << 40)
_OUTPUTS = 64
_BOTH_NARROW = "score >= 0.5 and score <= 0.55 and amount >= 30000.00 and amount <= 35000.00"
_COST_REACH = {"sort": 1 / 1.15, "zorder": 1 / 1.20}
"""Sorting is expected to take 10 to 15 % longer than bin-pack, z-order 20 %."""


def run() -> Sequence[Figure]:
    with open_place() as place:
        found = [figure for case in _cases() for figure in measure(place, case)]
        return [*found, *_costs(place), *_pruned(place)]


def _cases() -> list[Case]:
    by_score, by_both = "score ASC NULLS FIRST", "zorder(score, id)"
    return [
        Case(
            name="sort",
            table="sorted",
            reach=1.5,
            policy=_BY_SCORE,
            procedure=f", strategy => 'sort', sort_order => '{by_score}'",
        ),
        Case(
            name="z-order",
            table="zordered",
            reach=1.5,
            policy=_BY_BOTH,
            procedure=f", strategy => 'sort', sort_order => '{by_both}'",
        ),
    ]


def _costs(place: Place) -> Iterator[Figure]:
    """Our strategies in turns on one table."""
    case = Case(name="cost over bin-pack", table="costs", reach=1, decoded=True)
    size = make_table(place, case)
    start, rows = read_head(place, case), read_rows(place, case)
    speeds: dict[str, list[float]] = {"binpack": [], "sort": [], "zorder": []}
    for turn in range(RUNS + 1):
        for policy in (_ENCODED, _BY_SCORE, _BY_BOTH):
            began = time.perf_counter()
            run_ours(place, replace(case, policy=policy))
            took = time.perf_counter() - began
            assert read_rows(place, case) == rows
            _roll_back(place, case, start)
            if turn:
                speeds[policy.rewrite_strategy].append(size / 1e6 / took)
    _drop(place, case)
    for strategy, reach in _COST_REACH.items():
        took = statistics.median(speeds["binpack"]) / statistics.median(speeds[strategy]) - 1
        say(f"{strategy} takes {took:.0%} longer than bin-pack by re-encode")
        yield compare(
            f"{strategy} beside bin-pack",
            speeds[strategy],
            "our bin-pack, re-encoded",
            speeds["binpack"],
            "MB/s",
            round(reach, 2),
        )


def _pruned(place: Place) -> Iterator[Figure]:
    case = Case(name="files pruned", table="pruned", reach=5)
    size = make_table(place, case)
    start, target = read_head(place, case), size // _OUTPUTS
    opened = {}
    for policy in (_ENCODED, _NARROW, replace(_NARROW, rewrite_strategy="hilbert")):
        run_ours(place, replace(case, policy=replace(policy, small_file_threshold_bytes=1 << 40), target_bytes=target))
        opened[policy.rewrite_strategy] = _planned(place, case, _BOTH_NARROW)
        say(
            f"{policy.rewrite_strategy}: {opened[policy.rewrite_strategy]} of {_planned(place, case)} files "
            f"for {_BOTH_NARROW}"
        )
        _roll_back(place, case, start)
    _drop(place, case)
    for curve in ("zorder", "hilbert"):
        name = f"files opened by a condition on two columns, {curve}"
        yield fewer(name, opened[curve], "bin-pack", opened["binpack"], "files", case.reach)


def _planned(place: Place, case: Case, condition: str = "") -> int:
    location = load_table(place.spark, TableName("bench", case.table)).metadata_location.replace(
        "file:/", "file:///", 1
    )
    table = StaticTable.from_metadata(location)
    return sum(1 for _ in (table.scan(row_filter=condition) if condition else table.scan()).plan_files())


def _roll_back(place: Place, case: Case, snapshot: int) -> None:
    place.spark.sql(f"call thermocline.system.rollback_to_snapshot('bench.{case.table}', {snapshot})")


def _drop(place: Place, case: Case) -> None:
    place.spark.sql(f"drop table thermocline.bench.{case.table} purge")
