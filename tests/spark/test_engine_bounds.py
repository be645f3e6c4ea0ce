"""An engine that asks for something outside its plan or its bounds is refused by the runner, and nothing is committed
or deleted, whichever operation it was asked to perform."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.lake_database import LakeDatabase
from tests.spark.lake_table import Lake

from thermocline.core.maintenance.bins import Bin, CompactionPlan
from thermocline.core.maintenance.expiry import ExpiryChange
from thermocline.core.maintenance.manifests import ManifestPlan
from thermocline.core.maintenance.orphans import ListedFile
from thermocline.core.maintenance.outcome import Operation, Outcome
from thermocline.core.maintenance.plan import MaintenancePlan
from thermocline.core.policy.policy import Policy
from thermocline.errors.maintenance import EngineUnsuitable, OutsideThePlan
from thermocline.lake.actions.iceberg_actions import ActionResult
from thermocline.lake.actions.staged_commit import StagedTable
from thermocline.lake.commit.compare_and_swap import OpStamp, load_table
from thermocline.lake.commit.rewrite_files import NewData, Rewrite
from thermocline.lake.files.deletion_check import Deletable, NeededFiles
from thermocline.lake.read.manifest_list import read_manifest_facts
from thermocline.lake.read.table_metadata import missing_property
from thermocline.maintain.commits.applier import Applier
from thermocline.maintain.engines.procedures import ProceduresEngine, plan_procedure
from thermocline.maintain.operations.registry import plan_operation
from thermocline.maintain.operations.replace_files import staging_of
from thermocline.maintain.plans.planning import Planner
from thermocline.maintain.run_operation import run_operation

Lie = Callable[[Applier], object]
MONTH = timedelta(days=30)


class LyingEngine:
    """Performs no plan; asks for what its lie says."""

    name = "lying"

    def __init__(self, lie: Lie) -> None:
        self.lie = lie

    def run(self, plan: MaintenancePlan, applier: Applier) -> Outcome:
        self.lie(applier)
        return Outcome(operation=plan.operation, status="done", sentence="all is well", counters={"files_merged": 1})


@pytest.fixture
def lake(lake_database: LakeDatabase) -> Lake:
    """Two partitions with three files each, under one position delete, and four snapshots."""
    lake = Lake.make(lake_database, "id bigint, region string", partitioned="region")
    lake.append([(at, "us") for at in range(30)], files=3)
    lake.append([(at, "eu") for at in range(30, 60)], files=3)
    first = next(file.path for file in lake.seen().data if file.partition == ("us",))
    lake.delete_rows({first: [1]}, like=first)
    lake.append([(99, "us")])
    lake.now = datetime.now(UTC) + MONTH
    return lake


def attempt(lake: Lake, operation: Operation, lie: Lie, planner: Planner = plan_operation, **policy: Any) -> None:
    with lake.context(policy={"where": "", "snapshot_min_retained": 1, **policy}) as context:
        run_operation(operation, context, planner, LyingEngine(lie))


def on_disk(lake: Lake) -> set[str]:
    folder = Path(lake.head().location.removeprefix("file:").replace("//", "/"))
    return {str(path) for path in folder.rglob("*.*") if path.is_file()}


def check_refused(
    lake: Lake, operation: Operation, lie: Lie, sentence: str, planner: Planner = plan_operation, **policy: Any
) -> None:
    """The lie is refused with this sentence; the table and its files stay, and no op of it is left open."""
    before, files, rows = lake.head(), on_disk(lake), lake.rows()
    with pytest.raises(OutsideThePlan, match=sentence):
        attempt(lake, operation, lie, planner, **policy)
    assert load_table(lake.spark, lake.name).metadata_location == before.metadata_location
    assert on_disk(lake) >= files
    assert lake.rows() == rows
    phases = lake.lake_database.rows(
        "select phase from thermocline.op_log where phase not in ('abandoned', 'published')"
    )
    assert phases == []


def first_bin(applier: Applier) -> Bin:
    assert isinstance(applier.plan.change, CompactionPlan)
    return next(made for made in applier.plan.change.bins if not made.deletes)


def write_output(applier: Applier, made: Bin, rows: int, *, registered: bool = True) -> NewData:
    """A real file with the first rows of a bin, in its partition."""
    tables = [
        pq.read_table("/" + file.path.removeprefix("file:").lstrip("/"), partitioning=None) for file in made.files
    ]
    table = pa.concat_tables(tables).slice(0, rows)
    path = f"{made.files[0].path.rpartition('/')[0]}/{uuid.uuid4()}.parquet"
    if registered:
        staging_of(applier.context).registrar(applier.context.conn)(path)
    local = Path("/" + path.removeprefix("file:").lstrip("/"))
    pq.write_table(table, local)
    return NewData(
        path=path, size_bytes=local.stat().st_size, rows=table.num_rows, split_offsets=(4,), like=made.files[0]
    )


def replace_files(applier: Applier, rewrite: Rewrite) -> None:
    head = load_table(applier.context.spark(), applier.context.target.name)
    applier.commit_rewrite(head, rewrite, counters={}, message="a lie")


def lose_rows(applier: Applier) -> None:
    made = first_bin(applier)
    replace_files(applier, Rewrite(removed=made.files, added=[write_output(applier, made, 5)]))


def replace_half_a_bin(applier: Applier) -> None:
    made = first_bin(applier)
    replace_files(applier, Rewrite(removed=made.files[:1], added=[write_output(applier, made, 10)]))


def replace_others(applier: Applier) -> None:
    """Files of the partition that the plan leaves out."""
    assert isinstance(applier.plan.change, CompactionPlan)
    planned = {file.path for made in applier.plan.change.bins for file in made.files}
    others = [file for file in applier.plan.change.seen.data if file.path not in planned]
    made = replace(first_bin(applier), files=tuple(others))
    rows = sum(file.record_count for file in others)
    replace_files(applier, Rewrite(removed=others, added=[write_output(applier, made, rows)]))


def add_unregistered(applier: Applier) -> None:
    made = first_bin(applier)
    output = write_output(applier, made, sum(file.record_count for file in made.files), registered=False)
    replace_files(applier, Rewrite(removed=made.files, added=[output]))


def drop_deletes(applier: Applier) -> None:
    assert isinstance(applier.plan.change, CompactionPlan)
    replace_files(applier, Rewrite(dropped=applier.plan.change.seen.deletes))


@pytest.mark.conforms("M-222", "M-003")
@pytest.mark.parametrize(
    ("lie", "sentence", "where"),
    [
        (lose_rows, "30 rows of .* became 5", ""),
        (replace_half_a_bin, "replaces 1 of the 3 files of bin", ""),
        (replace_others, "which is not in its plan", "region = 'eu'"),
        (add_unregistered, r"adds 1 file\(s\) that it did not register", ""),
        (drop_deletes, "which still hides rows", ""),
    ],
)
def test_a_compaction_outside_its_plan_is_refused(lake: Lake, lie: Lie, sentence: str, where: str) -> None:
    check_refused(lake, "compact", lie, sentence, where=where)


def expire(applier: Applier, *snapshots: int, refs: tuple[str, ...] = ()) -> None:
    applier.expire_snapshots(load_table(applier.context.spark(), applier.context.target.name), snapshots, refs, ())


def expire_all_planned(applier: Applier) -> None:
    assert isinstance(applier.plan.change, ExpiryChange)
    head = load_table(applier.context.spark(), applier.context.target.name)
    assert head.snapshot_id is not None
    expire(applier, *applier.plan.change.plan.snapshots, head.snapshot_id)


def remove_main(applier: Applier) -> None:
    expire(applier, refs=("main",))


@pytest.mark.conforms("M-222")
@pytest.mark.parametrize(
    ("lie", "sentence"),
    [(expire_all_planned, "which is not in its plan"), (remove_main, "removes the ref main")],
)
def test_an_expiry_outside_its_plan_is_refused(lake: Lake, lie: Lie, sentence: str) -> None:
    check_refused(lake, "expire_snapshots", lie, sentence)


@pytest.mark.conforms("M-222")
def test_a_protected_snapshot_does_not_expire_whoever_asks(lake: Lake) -> None:
    oldest = lake.head().metadata["snapshots"][0]["snapshot-id"]
    second = lake.head().metadata["snapshots"][1]["snapshot-id"]
    lake.lake_database.run(
        "insert into thermocline.op_log (op_id, lake_id, kind, phase, worker, base_snapshot)"
        f" values ('00000000-0000-0000-0000-000000000007', {lake.lake_id}, 'compact', 'intent', 'another', {second})"
    )
    files = on_disk(lake)
    with pytest.raises(OutsideThePlan, match="nothing was committed or deleted"):
        attempt(lake, "expire_snapshots", lambda applier: expire(applier, oldest, second))
    assert {found["snapshot-id"] for found in lake.head().metadata["snapshots"]} >= {oldest, second}
    assert on_disk(lake) >= files


def deletable(path: str) -> tuple[Deletable, ...]:
    """Proof that nobody needs the file, from a comparison that knew of nobody."""
    return NeededFiles("a liar's", None).judge([ListedFile(path=path, size_bytes=1, modified=None)]).deletable


def delete_a_live_file(applier: Applier) -> None:
    assert applier.observed.head is not None
    path = f"{applier.observed.head.metadata_location}"
    list(applier.delete_files(deletable(path)))


def delete_a_staged_file(applier: Applier) -> None:
    assert isinstance(applier.plan.change, ExpiryChange)
    path = applier.plan.change.files[0].path
    staging_of(applier.context).registrar(applier.context.conn)(path)
    list(applier.delete_files(deletable(path)))


@pytest.mark.conforms("M-222")
@pytest.mark.parametrize(
    ("lie", "sentence"),
    [(delete_a_live_file, "which is not in its plan"), (delete_a_staged_file, "which is protected")],
)
def test_files_outside_the_plan_and_staged_files_are_not_deleted(lake: Lake, lie: Lie, sentence: str) -> None:
    check_refused(lake, "expire_snapshots", lie, sentence)


def rewrite_other_manifests(applier: Applier) -> None:
    assert isinstance(applier.plan.change, ManifestPlan)
    facts = read_manifest_facts(applier.plan.metadata_location)
    deletes = tuple(fact.path for fact in facts if not fact.is_data)
    group = replace(applier.plan.change.groups[0], paths=(*applier.plan.change.groups[0].paths, *deletes))
    applier.rewrite_manifests(group, 8 << 20)


@pytest.mark.conforms("M-222")
def test_manifests_outside_the_plan_are_not_rewritten(lake: Lake) -> None:
    check_refused(
        lake,
        "rewrite_manifests",
        rewrite_other_manifests,
        "rewrites the manifest .*, which is not in its plan",
        manifest_rewrite_min_manifests=2,
    )


def delete_rows(staged: StagedTable, _: OpStamp) -> ActionResult:
    expressions = staged.head.spark._jvm.org.apache.iceberg.expressions.Expressions  # type: ignore[union-attr]
    staged.table.newDelete().deleteFromRowFilter(expressions.equal("region", "eu")).commit()
    return ActionResult(before=3, after=0)


def set_a_property(staged: StagedTable, _: OpStamp) -> ActionResult:
    staged.table.updateProperties().set("gc.enabled", "false").commit()
    staged.table.newAppend().commit()
    return ActionResult(before=3, after=1)


@pytest.mark.conforms("M-222", "M-002")
@pytest.mark.parametrize(
    ("procedure", "sentence"),
    [
        (delete_rows, "made a snapshot of operation delete"),
        (set_a_property, "changes the table's properties"),
    ],
)
def test_a_procedure_that_does_more_than_rewrite_is_not_committed(
    lake: Lake, procedure: Callable[[StagedTable, OpStamp], ActionResult], sentence: str
) -> None:
    lake.policy = Policy(preset="modak")
    check_refused(lake, "compact", lambda applier: applier.run_procedure(procedure), sentence, plan_procedure)


class LateDefault:
    """A column gets a default for older rows after the plan was made."""

    name = "late"

    def __init__(self, lake: Lake) -> None:
        self.lake = lake

    def run(self, plan: MaintenancePlan, applier: Applier) -> Outcome:
        name, field = f"thermocline.{self.lake.name.schema}.{self.lake.name.table}", missing_property(1)
        self.lake.spark.sql(f"alter table {name} set tblproperties ('{field}' = '5')")
        return ProceduresEngine().run(plan, applier)


def test_procedures_do_not_rewrite_a_table_that_got_a_default_after_the_plan(lake: Lake) -> None:
    """They would write NULL where the default belongs."""
    before = lake.head().snapshot_id
    with lake.context(policy={"where": ""}) as context, pytest.raises(EngineUnsuitable):
        run_operation("compact", context, plan_procedure, LateDefault(lake))
    assert lake.head().snapshot_id == before
