"""Extreme values through every writer of lake files, in small row groups and files: every condition finds its rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.cloned_tables import ClonableTable, make_clonable
from tests.e2e.eager_pass import eager_pass
from tests.external_readers import LakeAsked, assert_outside_readers_agree
from tests.extreme_values import WILD, wild_changes, wild_rows
from tests.faults.points import ALL
from tests.maintenance_ops import run_compact
from tests.twin import EVENTS_PARTITIONS, Spanning

from thermocline.runtime.postgres_server import PostgresServer

STRATEGIES: dict[str, dict[str, object]] = {
    "binpack": {},
    "sort by double": {"rewrite_strategy": "sort", "sort_order": "d DESC NULLS LAST"},
    "zorder": {"rewrite_strategy": "zorder", "zorder_columns": ("word", "d", "d18", "at")},
}
if ALL:
    STRATEGIES["sort by text"] = {"rewrite_strategy": "sort", "sort_order": "plain ASC NULLS FIRST, id ASC"}
    STRATEGIES["sort by decimal"] = {"rewrite_strategy": "sort", "sort_order": "d38, word"}


@pytest.fixture(scope="module")
def tiered(
    postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClonableTable]:
    choices: dict[str, Any] = {"table": WILD, "partitions": EVENTS_PARTITIONS, "rows": wild_rows(), "small_files": True}
    with make_clonable(postgres, template, tmp_path_factory.mktemp("wild"), **choices) as made:
        yield made


def heavy_rows(first_id: int) -> tuple[str, str]:
    """Statements that make awkward rows beside long texts that nothing compresses: most bytes of a file are in pages
    that merge copies."""
    long = "(select left(string_agg(md5(e.id || '.' || i), ''), 6000) from generate_series(1, 190) i)"
    last_id = first_id + 239
    return wild_rows(
        first_id=first_id
    ), f"update events e set code = {long} where id % 8 > 0 and id between {first_id} and {last_id}"


@pytest.fixture(scope="module")
def heavy(postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClonableTable]:
    choices: dict[str, Any] = {"table": WILD, "partitions": EVENTS_PARTITIONS, "rows": "; ".join(heavy_rows(1))}
    with make_clonable(postgres, template, tmp_path_factory.mktemp("heavy"), **choices) as made:
        yield made


def test_rows_of_merged_row_groups_are_found_by_every_condition(heavy: ClonableTable) -> None:
    """Files of a tiering and of a fold that deleted nothing: pages are copied, and tiny ones encoded again."""
    with heavy.clone() as spanning:
        for statement in heavy_rows(1001):
            spanning.both(statement)
        spanning.fold()
        with eager_pass(spanning, rewrite_min_input_files=2) as context:
            told = run_compact(context)
        assert told.status == "done", told
        assert any(detail.startswith("merged:") and "encoded again:" in detail for detail in told.details), told.details
        assert_all_agree(spanning)


def lake_files(spanning: Spanning) -> list[Path]:
    found = spanning.spark().sql("select file_path from thermocline.public.events.files where content = 0").collect()
    return [Path(row.file_path.removeprefix("file:")) for row in found]


def assert_all_agree(spanning: Spanning, each: int = 1) -> None:
    """Compare the seam and the gateway with the twin, then, after a fold, the external engines."""
    before = spanning.asked.answered
    spanning.assert_same_rows(each=each)
    assert spanning.asked.answered - before > 50
    if spanning.query("select 1 from thermocline_delta.public__events where _folded is null"):
        return
    ((line,),) = spanning.query("select thermocline.key_timestamptz(t) from thermocline.cutline")
    expected = spanning.twin.execute("select id from events where ts < %s", [line]).fetchall()
    found = LakeAsked.open(spanning.spark(), spanning.name).rows.column("id").to_pylist()
    assert sorted(found) == sorted(key for (key,) in expected)
    assert_outside_readers_agree(
        spanning.spark(), spanning.name, turn=spanning.turn, each=each, engines=("duckdb", "pyiceberg", "spark")
    )


@pytest.mark.conforms("C-223")
def test_rows_that_were_tiered_are_found_by_every_condition(tiered: ClonableTable) -> None:
    with tiered.clone() as spanning:
        groups = [pq.ParquetFile(file).metadata.num_row_groups for file in lake_files(spanning)]
        assert max(groups) >= 2
        assert len(groups) >= 6
        assert_all_agree(spanning, each=2)


def test_rows_that_were_corrected_are_found_by_every_condition_before_and_after_the_fold(tiered: ClonableTable) -> None:
    with tiered.clone() as spanning:
        for statement in wild_changes(3, range(1, 200, 2)):
            spanning.both(statement)
        assert_all_agree(spanning)
        assert spanning.fold().commits == 1
        assert_all_agree(spanning)


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES.keys())
def test_rows_of_compacted_files_are_found_by_every_condition(
    tiered: ClonableTable, strategy: dict[str, object]
) -> None:
    """Files as tiering wrote them, and some as a fold did, with deletes to apply."""
    with tiered.clone() as spanning:
        before = set(lake_files(spanning))
        for statement in wild_changes(5, range(1, 60, 3)):
            spanning.both(statement)
        spanning.fold()
        with eager_pass(spanning, rewrite_min_input_files=2, **strategy) as context:
            told = run_compact(context)
        assert told.status == "done", told
        assert len(before - set(lake_files(spanning))) >= 4
        assert_all_agree(spanning)
