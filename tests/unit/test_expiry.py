"""Which snapshots expire: the rules, and that nothing needed ever does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thermocline.core.maintenance.bounds import Bounds
from thermocline.core.maintenance.expiry import RefFact, SnapshotFact, plan_expiry

pytestmark = pytest.mark.unit

HOUR = 3_600_000
DAY = 24 * HOUR
NOW = 1_800_000_000_000


def chain(*ages_ms: int) -> list[SnapshotFact]:
    """Snapshots 1, 2, … of these ages, oldest first, each the child of the one before."""
    return [
        SnapshotFact(id=at, parent=at - 1 or None, sequence=at, at_ms=NOW - age)
        for at, age in enumerate(sorted(ages_ms, reverse=True), start=1)
    ]


def main(snapshots: list[SnapshotFact], **retention: int) -> RefFact:
    return RefFact(name="main", snapshot_id=snapshots[-1].id, is_branch=True, **retention)


def expire(
    snapshots: list[SnapshotFact], *refs: RefFact, bounds: Bounds | None = None, keep: int = 1, hours: int = 1
) -> list[int]:
    plan = plan_expiry(
        snapshots,
        refs or (main(snapshots),),
        (refs or (main(snapshots),))[0].snapshot_id,
        bounds or Bounds(),
        retention_ms=hours * HOUR,
        min_retained=keep,
        now_ms=NOW,
    )
    return sorted(plan.snapshots)


@pytest.mark.conforms("M-094")
def test_the_newest_stay_whatever_their_age_and_the_young_stay_whatever_their_number() -> None:
    old = chain(*(DAY * n for n in range(2, 8)))
    assert expire(old, keep=4) == [1, 2]
    young = chain(*(HOUR * n for n in range(1, 8)))
    assert expire(young, keep=2, hours=24) == []


def test_eight_snapshots_with_five_to_keep_and_a_week_lose_the_last_three() -> None:
    assert expire(chain(HOUR, *(DAY * n for n in (2, 3, 5, 6, 8, 10, 14))), keep=5, hours=168) == [1, 2, 3]


@pytest.mark.conforms("M-043", "M-096")
def test_nothing_at_or_above_the_oldest_reader_expires() -> None:
    snapshots = chain(*(DAY * n for n in range(1, 9)))
    assert expire(snapshots, bounds=Bounds(protected={4: "pin 7 of analyst"})) == [1, 2, 3]


def test_who_held_a_snapshot_is_said() -> None:
    snapshots = chain(*(DAY * n for n in range(1, 5)))
    plan = plan_expiry(
        snapshots,
        (main(snapshots),),
        4,
        Bounds(protected={2: "reader 4711"}),
        retention_ms=HOUR,
        min_retained=1,
        now_ms=NOW,
    )
    assert plan.snapshots == (1,)
    assert plan.held == {2: "reader 4711", 3: "newer than snapshot 2 (reader 4711)"}


def test_a_branch_keeps_its_own_number_and_age_and_a_tag_its_snapshot() -> None:
    snapshots = chain(*(DAY * n for n in range(1, 9)))
    branch = RefFact(name="audit", snapshot_id=5, is_branch=True, min_snapshots=2, max_snapshot_age_ms=HOUR)
    tag = RefFact(name="release", snapshot_id=1, is_branch=False)
    assert expire(snapshots, main(snapshots), branch, tag) == [2, 3, 6, 7]
    assert expire(snapshots, main(snapshots, min_snapshots=3), tag) == [2, 3, 4, 5]


@pytest.mark.conforms("M-190")
def test_a_ref_past_its_own_age_goes_with_its_snapshots_and_main_never_does() -> None:
    snapshots = chain(*(DAY * n for n in range(1, 5)))
    tag = RefFact(name="release", snapshot_id=1, is_branch=False, max_ref_age_ms=HOUR)
    plan = plan_expiry(
        snapshots, (main(snapshots, max_ref_age_ms=1), tag), 4, Bounds(), retention_ms=HOUR, min_retained=1, now_ms=NOW
    )
    assert (plan.refs, plan.snapshots) == (("release",), (3, 2, 1))
    missing = RefFact(name="odd", snapshot_id=99, is_branch=False, max_ref_age_ms=HOUR)
    assert (
        plan_expiry(
            snapshots, (main(snapshots), missing), 4, Bounds(), retention_ms=HOUR, min_retained=1, now_ms=NOW
        ).refs
        == ()
    )


def test_a_rolled_back_snapshot_expires_by_age_and_a_missing_parent_ends_the_walk() -> None:
    snapshots = [*chain(DAY * 4, DAY * 3), SnapshotFact(id=9, parent=1, sequence=9, at_ms=NOW - DAY * 2)]
    assert expire(snapshots, RefFact(name="main", snapshot_id=2, is_branch=True, min_snapshots=1)) == [1]
    assert expire(snapshots, RefFact(name="main", snapshot_id=2, is_branch=True, min_snapshots=1), keep=0) == [1, 9]
    orphaned = [SnapshotFact(id=5, parent=4, sequence=5, at_ms=NOW - DAY)]
    assert expire(orphaned) == []


def test_a_young_snapshot_of_no_branch_stays() -> None:
    snapshots = [*chain(DAY * 4, DAY * 3), SnapshotFact(id=9, parent=1, sequence=9, at_ms=NOW - HOUR)]
    rolled_back = RefFact(name="main", snapshot_id=2, is_branch=True, min_snapshots=1)
    assert expire(snapshots, rolled_back, keep=0, hours=24) == [1]
    assert expire(snapshots, rolled_back, keep=0, hours=1) == [1, 9]


def test_a_staged_snapshot_waits_a_week_for_its_audit() -> None:
    snapshots = [*chain(DAY * 3, DAY), SnapshotFact(id=7, parent=1, sequence=3, at_ms=NOW - DAY * 2, is_staged=True)]
    kept = RefFact(name="main", snapshot_id=2, is_branch=True)
    assert expire(snapshots, kept, keep=0) == [1]
    old = [*snapshots[:2], SnapshotFact(id=7, parent=1, sequence=3, at_ms=NOW - DAY * 8, is_staged=True)]
    assert expire(old, kept, keep=0) == [1, 7]


@given(
    ages=st.lists(st.integers(0, 30 * DAY), min_size=1, max_size=12),
    protected=st.sets(st.integers(1, 12), max_size=3),
    tagged=st.sets(st.integers(1, 12), max_size=3),
    keep=st.integers(0, 6),
    hours=st.integers(0, 400),
)
def test_what_is_needed_never_expires(
    ages: list[int], protected: set[int], tagged: set[int], keep: int, hours: int
) -> None:
    snapshots = chain(*ages)
    refs = [
        main(snapshots),
        *(RefFact(name=f"t{at}", snapshot_id=at, is_branch=False) for at in tagged if at <= len(snapshots)),
    ]
    gone = set(
        expire(snapshots, *refs, bounds=Bounds(protected=dict.fromkeys(protected, "reader")), keep=keep, hours=hours)
    )
    held = {at for at in protected if at <= len(snapshots)}
    assert not gone & (held | tagged | {len(snapshots)} | set(range(len(snapshots) - keep + 1, len(snapshots) + 1)))
    assert all(snapshots[at - 1].at_ms <= NOW - hours * HOUR for at in gone)
    assert not held or all(at < min(held) for at in gone)
