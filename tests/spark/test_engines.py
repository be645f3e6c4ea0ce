"""The engine seam: a program outside is given bins and its answers are checked; Iceberg's own procedures run under the
same plan."""

from __future__ import annotations

import sys
from contextlib import closing

import pytest
from tests.spark.external_engine import PROGRAM
from tests.spark.lake_database import LakeDatabase

from thermocline.catalog.maintenance.lake_tables import add_lake_table
from thermocline.core.names import TableName
from thermocline.maintain.run_pass import PassReport, PassRequest, render_pass, run_pass
from thermocline.runtime.settings import Settings

LAKE = TableName("lab", "readings")
TABLE = "thermocline.lab.readings"


@pytest.fixture
def lake(lake_database: LakeDatabase) -> LakeDatabase:
    lake_database.spark.sql("create namespace if not exists thermocline.lab")
    lake_database.spark.sql(f"create table {TABLE} (id bigint, note string) using iceberg")
    append_files(lake_database)
    with closing(lake_database.connect()) as conn:
        add_lake_table(conn, LAKE)
    return lake_database


def append_files(lake_database: LakeDatabase) -> None:
    """Eight small files in one commit."""
    lake_database.spark.range(0, 400, 1, 8).selectExpr("id", "cast(id as string) as note").writeTo(TABLE).append()


def run(lake: LakeDatabase, engine: str, manner: str = "", *, dry_run: bool = False) -> PassReport:
    command = f"{sys.executable} {PROGRAM} '{manner}'"
    settings = Settings(dsn=lake.dsn, warehouse=str(lake.warehouse), maintenance_external_command=command)
    request = PassRequest(operations=("compact",), engine=engine, dry_run=dry_run)
    return run_pass(lake.dsn, LAKE, settings=settings, spark=lambda: lake.spark, request=request)


def facts(lake: LakeDatabase) -> tuple[int, int, int]:
    """Data files, rows, the sum of their ids."""
    files = lake.spark.table(f"{TABLE}.files").count()
    rows = lake.spark.table(TABLE).selectExpr("count(*)", "sum(id)").first()
    assert rows is not None
    return files, rows[0], rows[1]


def hold(lake: LakeDatabase) -> None:
    """An operation that is under way protects the snapshot it began on."""
    lake.run(
        "insert into thermocline.op_log (op_id, lake_id, kind, phase, worker, base_snapshot)"
        " select '00000000-0000-0000-0000-000000000007', id, 'compact', 'intent', 'another', {head} from "
        "thermocline.lake_tables",
        head=str(lake.spark.table(f"{TABLE}.refs").first()["snapshot_id"]),  # type: ignore[index]
    )


@pytest.mark.conforms("M-003")
def test_what_an_external_engine_returns_is_checked_before_anything_is_committed(lake: LakeDatabase) -> None:
    before = facts(lake)
    document = render_pass(run(lake, "external", dry_run=True))["plan"]
    assert (document["version"], document["engine"], document["settings"]["preset"]) == (1, "external", "modak")
    assert document["operations"][0]["will_run"]
    for manner, sentence in [
        ("outside", "outside its plan"),
        ("above the bounds", "held by operation 00000000-0000-0000-0000-000000000007 (compact)"),
        ("loses a row", "has 400 rows, and the external engine wrote 399"),
    ]:
        if manner == "above the bounds":
            hold(lake)
        report = run(lake, "external", manner)
        assert report.status == "failed", manner
        assert sentence in report.sentence, manner
        assert facts(lake) == before, manner
    report = run(lake, "external", "honest")
    assert (report.status, report.sentence) == ("done", "compact: compacted 8 files into 1 (across 1 bins)")
    assert facts(lake) == (1, *before[1:])


@pytest.mark.conforms("M-002")
def test_icebergs_own_procedures_run_as_an_engine(lake: LakeDatabase) -> None:
    before = facts(lake)
    report = run(lake, "spark-procedures")
    assert (report.status, report.engine) == ("done", "spark-procedures"), report.sentence
    assert report.sentence == "compact: compacted 8 files into 1"
    assert facts(lake) == (1, *before[1:])
    again = run(lake, "spark-procedures")
    assert (again.status, again.sentence) == ("skipped", "compact: no files eligible for compaction")
