"""Conditions on columns without statistics: rows that tiering and folding wrote are found through the seam and by
Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.manifest import DataFile
from pyiceberg.table import StaticTable
from tests.e2e.wrong_bounds import plan_wrong_metrics
from tests.twin import EVENTS_PARTITIONS, Spanning
from typer.testing import CliRunner

from thermocline.cli.main import app
from thermocline.errors import NotConfirmed
from thermocline.lake.commit import compare_and_swap as commit
from thermocline.lake.commit.compare_and_swap import load_table

TABLE = """
create table {schema}.events (
    id bigint not null,
    ts timestamptz not null,
    name text,
    raw bytea,
    x double precision,
    filler text,
    primary key (id, ts)
)"""
LONG = "repeat('z', 6000)"
"""Longer than the 4,096 bytes up to which Arrow writes statistics."""
ROWS = f"""
insert into events
select i, '2026-01-01 00:00+00'::timestamptz + i * interval '1 minute',
       case when i = 7 then {LONG} when i <= 500 then 'm' else 'x' end,
       case when i = 7 then {LONG}::bytea when i <= 500 then 'm'::bytea else 'x'::bytea end,
       case when i = 7 then 'NaN'::float8 when i = 8 then '-infinity' when i <= 500 then -0.0 else 5.5 end,
       repeat('f', 1000)
  from generate_series(1, 9000) i
"""
CONDITIONS = (
    "name = 'm'",
    "name < 'n'",
    f"name = {LONG}",
    "name like 'zzz%'",
    "name > 'x'",
    "raw = 'm'::bytea",
    "raw < 'n'::bytea",
    "x = 0",
    "x < 0",
    "x > 5.5",
    "x = 'NaN'",
    "x >= 5.5",
    "x = '-infinity'",
    "name is null",
    "id = 7",
    "name in ('m', 'q')",
)


@pytest.fixture
def tiered(database: str, tmp_path: Path) -> Iterator[Spanning]:
    made = Spanning.make(database, tmp_path, table=TABLE, partitions=EVENTS_PARTITIONS, rows=ROWS)
    # The smallest that may be: row groups of 3 MB, so that January has several.
    made.settings = made.settings.model_copy(update={"copy_memory_bytes": 33_554_432})
    yield made
    made.close()


def lake_files(spanning: Spanning) -> list[DataFile]:
    """The data files of the lake's head, as their manifests describe them."""
    location = load_table(spanning.spark(), spanning.name).metadata_location
    return [
        task.file for task in StaticTable.from_metadata(location.replace("file:/", "file:///", 1)).scan().plan_files()
    ]


def assert_same_answers(spanning: Spanning) -> None:
    for condition in CONDITIONS:
        spanning.both(f"select id, length(name), x::text from events where {condition}")
        wanted = spanning.twin.execute(f"select count(*) from events where {condition}".encode()).fetchall()
        if "bytea" not in condition and "repeat" not in condition:
            spark = condition.replace("'-infinity'", "double('-infinity')").replace("'NaN'", "double('NaN')")
            found = spanning.spark().sql(f"select count(*) from thermocline.public.events where {spark}").collect()
            assert (condition, [tuple(row) for row in found]) == (condition, wanted)


def test_a_text_of_six_thousand_bytes_hides_no_row_of_its_file(tiered: Spanning) -> None:
    tiered.both("insert into events values (10000, '2026-04-02', 'hot', 'hot', 1, 'f')")
    tiered.tier()
    assert tiered.query("select count(*) from thermocline.partitions where state = 'dropped'")[0][0] > 0
    assert max(len(file.split_offsets or ()) for file in lake_files(tiered)) > 1
    tiered.both("delete from events where id = 10000")
    assert_same_answers(tiered)
    tiered.both(f"update events set name = {LONG}, x = 'NaN' where id in (400, 8000) returning id")
    tiered.both("update events set name = 'q' where id in (401, 8001) returning id")
    tiered.fold()
    assert_same_answers(tiered)
    tiered.assert_same_rows()


def test_a_lake_with_wrong_bounds_is_found_out_and_repaired_after_its_name_was_given(
    spanning: Spanning, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(commit, "plan_metrics", plan_wrong_metrics)
        spanning.tier()
    hidden = "select * from events where note = 'row 99' and ts < '2026-04-01'"
    assert spanning.query(hidden) == []
    spanning.assert_same_rows()
    command = ["verify", "public.events", "--dsn", spanning.dsn]
    found = CliRunner().invoke(app, command)
    assert (found.exit_code, "column note of file:" in found.stdout) == (1, True), found.output
    assert "its highest value 'row 99' lies above its upper bound 'row 2'" in found.stdout
    refused = CliRunner().invoke(app, [*command, "--repair", "--yes", "public.event"])
    assert isinstance(refused.exception, NotConfirmed)
    done = CliRunner().invoke(app, [*command, "--repair", "--yes", "public.events", "--json"])
    assert done.exit_code == 0, done.output
    assert spanning.both(hidden) != []
    spanning.assert_same_rows()
    spanning.both("update events set v = v + 1 where id % 7 = 0")
    spanning.fold()
    spanning.assert_same_rows()
    assert spanning.query("select kind, phase from thermocline.op_log where kind = 'repair_manifests'") == [
        ("repair_manifests", "published")
    ]
