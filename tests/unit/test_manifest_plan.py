"""Which manifests are worth rewriting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from thermocline.core.maintenance.manifests import ManifestFact, plan_manifests

pytestmark = pytest.mark.unit
MB = 1_048_576


def manifests(count: int, spec_id: int = 0, **changes: object) -> list[ManifestFact]:
    return [
        replace(
            ManifestFact(path=f"m{spec_id}-{at}", spec_id=spec_id, is_data=True, size_bytes=7000, live_entries=3),
            **changes,  # type: ignore[arg-type]
        )
        for at in range(count)
    ]


def test_too_few_data_manifests_are_left_alone_and_deletes_do_not_count() -> None:
    plan = plan_manifests([*manifests(3), *manifests(200, is_data=False)], min_manifests=100, target_bytes=8 * MB)
    assert plan.skip == "only 3 data manifests, below threshold of 100"


def test_each_spec_is_a_group_and_one_that_cannot_shrink_is_left_alone() -> None:
    plan = plan_manifests([*manifests(12), *manifests(1, spec_id=1)], min_manifests=5, target_bytes=8 * MB)
    assert [(group.spec_id, len(group.paths), group.entries) for group in plan.groups] == [(0, 12, 36)]
    assert plan.details == ("spec 1: 1 manifests, no fewer would do",)


def test_what_a_rewrite_made_is_not_rewritten_until_data_came_after_it() -> None:
    made = manifests(6, written_by_rewrite=True)
    assert (
        plan_manifests(made, min_manifests=2, target_bytes=30_000).skip
        == "6 data manifests are as few as they can be at 30000 bytes each"
    )
    assert plan_manifests([*made, *manifests(1)], min_manifests=2, target_bytes=30_000).skip is None


def test_manifests_without_live_entries_say_so() -> None:
    assert (
        plan_manifests(manifests(5, live_entries=0), min_manifests=2, target_bytes=MB).skip
        == "no data entries to rewrite"
    )
