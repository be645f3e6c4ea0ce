"""What an engine asks for, compared with its plan and its bounds."""

from __future__ import annotations

import pytest

from thermocline.core.lake_file import LiveDataFile, LiveDeleteFile
from thermocline.core.maintenance.bins import Bin, CompactionPlan
from thermocline.core.maintenance.bounds import Bounds
from thermocline.core.maintenance.expiry import ExpiryChange, ExpiryPlan, RefFact
from thermocline.core.maintenance.files import LakeSnapshot
from thermocline.core.maintenance.manifests import ManifestGroup, ManifestPlan
from thermocline.core.maintenance.plan import Change, MaintenancePlan
from thermocline.core.maintenance.render_plan import render_plan
from thermocline.errors.maintenance import OutsideThePlan
from thermocline.lake.commit.rewrite_files import NewData, Rewrite
from thermocline.maintain.plans.plan_checks import (
    check_expiry,
    check_manifests,
    check_rewrite,
    check_snapshot_counts,
    why_not_whole,
)


def data(path: str, rows: int = 10) -> LiveDataFile:
    return LiveDataFile(path=path, size_bytes=100, record_count=rows, sequence_number=1)


def delete(path: str, referenced: str, rows: int = 2) -> LiveDeleteFile:
    return LiveDeleteFile(
        path=path, kind="position", size_bytes=10, record_count=rows, sequence_number=2, referenced_file=referenced
    )


def made_bin(*files: LiveDataFile, deletes: dict[str, tuple[LiveDeleteFile, ...]] | None = None) -> Bin:
    return Bin(number=0, group=(0, ()), files=files, deletes=deletes or {}, kernel="splice", target_bytes=1 << 20)


def plan_of(change: Change, operation: str = "compact", bounds: Bounds | None = None) -> MaintenancePlan:
    return MaintenancePlan(
        operation=operation, metadata_location="m1", snapshot=1, bounds=bounds or Bounds(), change=change
    )


def new(rows: int, like: LiveDataFile) -> NewData:
    return NewData(path="new.parquet", size_bytes=1, rows=rows, split_offsets=(4,), like=like)


A, B, OTHER = data("/a"), data("/b"), data("/other")
HIDING = delete("d", "/other")
NOW = LakeSnapshot(snapshot_id=1, sequence_number=2, format_version=2, data=(A, B, OTHER), deletes=(HIDING,))
PLAN = plan_of(CompactionPlan(seen=NOW, bins=(made_bin(A, B),)))


def test_what_was_planned_is_accepted() -> None:
    check_rewrite(PLAN, NOW, Rewrite(removed=[A, B], added=[new(20, A)], sequence_number=2))
    assert render_plan(PLAN).sentence == "would compact 2 files (across 1 bins)"


@pytest.mark.conforms("M-222")
def test_a_file_that_is_not_in_the_plan_is_not_replaced() -> None:
    with pytest.raises(OutsideThePlan, match="replaces /other, which is not in its plan"):
        check_rewrite(PLAN, NOW, Rewrite(removed=[OTHER], added=[new(10, OTHER)]))
    with pytest.raises(OutsideThePlan, match="replaces 1 of the 2 files of bin 0"):
        check_rewrite(PLAN, NOW, Rewrite(removed=[A], added=[new(10, A)]))
    with pytest.raises(OutsideThePlan, match="replaces no file of its plan"):
        check_rewrite(PLAN, NOW, Rewrite(removed=[], added=[new(10, OTHER)]))


@pytest.mark.conforms("M-222")
@pytest.mark.parametrize(("rows", "is_whole"), [(20, True), (19, True), (18, True), (17, False), (21, False)])
def test_a_bin_keeps_its_rows_but_for_deleted_ones(rows: int, is_whole: bool) -> None:
    made = made_bin(A, B, deletes={"/a": (delete("d", "/a", rows=2),)})
    assert (why_not_whole(made, rows) is None) is is_whole


def test_how_many_rows_equality_deletes_take_is_not_known() -> None:
    unknown = LiveDeleteFile(
        path="e", kind="equality", size_bytes=1, record_count=1, sequence_number=9, equality_ids=(1,)
    )
    made = made_bin(A, B, deletes={"/a": (unknown,)})
    assert [why_not_whole(made, rows) is None for rows in (0, 20, 21)] == [True, True, False]


@pytest.mark.conforms("M-222")
def test_a_delete_file_that_hides_rows_is_not_dropped() -> None:
    with pytest.raises(OutsideThePlan, match="drops the delete file d, which still hides rows"):
        check_rewrite(PLAN, NOW, Rewrite(removed=[A, B], added=[new(20, A)], dropped=[HIDING], sequence_number=2))


@pytest.mark.conforms("M-222")
def test_snapshots_outside_the_plan_and_protected_ones_stay() -> None:
    expiry = ExpiryChange(plan=ExpiryPlan(snapshots=(1, 2), refs=("old",), held={}))
    plan = plan_of(expiry, "expire_snapshots", Bounds(protected={2: "pin 7"}))
    refs = [RefFact(name="main", snapshot_id=9, is_branch=True), RefFact(name="tag", snapshot_id=1, is_branch=False)]
    check_expiry(plan, 9, refs[:1], expiring=[1], removed_refs=["old"])
    for expiring, removed, sentence in (
        ([3], [], "snapshot 3, which is not in its plan"),
        ([2], [], "snapshot 2, which is protected: pin 7"),
        ([1], [], "snapshot 1, which is protected: ref tag"),
        ([], ["main"], "removes the ref main"),
    ):
        with pytest.raises(OutsideThePlan, match=sentence):
            check_expiry(plan, 9, refs, expiring=expiring, removed_refs=removed)
    with pytest.raises(OutsideThePlan, match="which is the current one"):
        check_expiry(plan, 1, refs[:1], expiring=[1], removed_refs=[])


def test_manifests_outside_the_plan_are_not_rewritten() -> None:
    groups = (ManifestGroup(spec_id=0, paths=("m1", "m2"), entries=4),)
    plan = plan_of(ManifestPlan(groups=groups, skip=None), "rewrite_manifests")
    check_manifests(plan, 0, ["m1", "m2"])
    for spec_id, path in ((0, "m3"), (1, "m1")):
        with pytest.raises(OutsideThePlan, match=f"rewrites the manifest {path}"):
            check_manifests(plan, spec_id, [path])


@pytest.mark.parametrize(
    ("after", "sentence"),
    [
        ({"operation": "delete", "total-records": "20"}, "operation delete, which is no rewrite"),
        ({"operation": "replace", "total-records": "21"}, "made 21 rows of 20"),
        ({"operation": "replace", "total-records": "17"}, "made 17 rows of 20"),
    ],
)
def test_a_snapshot_of_a_procedure_holds_the_rows_it_replaces(after: dict[str, str], sentence: str) -> None:
    before = {"operation": "append", "total-records": "20", "total-position-deletes": "2"}
    check_snapshot_counts(PLAN, before, {"operation": "replace", "total-records": "18"})
    with pytest.raises(OutsideThePlan, match=sentence):
        check_snapshot_counts(PLAN, before, after)
