"""Planning of compaction, on the worked examples of the acceptance list and on random tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.compaction_inputs import (
    ARTEMIS,
    MB,
    MODAK,
    NOW,
    REGION,
    SEAWEEDFS,
    bin_sizes,
    data_files,
    delete_file,
    lake_table,
)

from thermocline.core.lake_file import LiveDataFile
from thermocline.core.maintenance.bins import DELETES_NOT_APPLIED, NOTHING, pack, plan_compaction
from thermocline.core.maintenance.clustering import Clustering, OrderTerm, overlap_depth, parse_sort_order
from thermocline.core.maintenance.files import (
    DeleteIndex,
    PartitionField,
    endangered_deletes,
    is_same_entry,
    unneeded_deletes,
)
from thermocline.core.policy.partition_scope import parse_where
from thermocline.core.policy.policy import Policy
from thermocline.errors.maintenance import BadWhere, SortOrderUnreadable


@pytest.mark.conforms("M-055")
def test_packing_takes_the_largest_first_and_drops_a_bin_of_one() -> None:
    plan = plan_compaction(lake_table(data_files(31, 31, 31, 31, 31, 20, 5)), ARTEMIS, NOW)
    assert bin_sizes(plan) == [[31, 20, 5], [31, 31, 31, 31]]
    assert bin_sizes(plan_compaction(lake_table(data_files(31, 31, 31, 31, 31)), ARTEMIS, NOW)) == [[31, 31, 31, 31]]


@pytest.mark.conforms("M-053", "M-054")
def test_specs_and_partitions_are_never_mixed() -> None:
    specs = {0: REGION[0], 1: (PartitionField(name="kind", source="kind", transform="identity"),)}
    data = [
        *data_files(1, 1, partition=("us",)),
        *data_files(1, 1, partition=("us",), spec_id=1, start=10),
        *data_files(1, partition=("eu",), start=20),
    ]
    plan = plan_compaction(lake_table(data, specs=specs), ARTEMIS, NOW)
    assert [{file.group for file in made.files} for made in plan.bins] == [{(0, ("us",))}, {(1, ("us",))}]


def test_the_modak_minimum_counts_over_the_table_and_seaweedfs_counts_per_partition() -> None:
    data = [
        *data_files(1, 1, 1, partition=("a",)),
        *data_files(1, 1, 1, partition=("b",), start=5),
        *data_files(1, 1, partition=("c",), start=9),
    ]
    assert bin_sizes(plan_compaction(lake_table(data), MODAK, NOW)) == [[1, 1], [1, 1, 1], [1, 1, 1]]
    skipped = plan_compaction(lake_table(data), SEAWEEDFS, NOW)
    assert (skipped.bins, skipped.sentence) == ((), NOTHING)
    assert skipped.details == ("largest group: 3 files, needs 5",)


def test_a_partition_below_the_minimum_stays_beside_one_that_is_compacted() -> None:
    data = [*data_files(20, 15, 10, 25, 18, partition=("us",)), *data_files(5, 8, partition=("eu",), start=9)]
    assert bin_sizes(plan_compaction(lake_table(data), SEAWEEDFS, NOW)) == [[25, 20, 18, 15, 10]]


@pytest.mark.conforms("M-060")
def test_files_of_a_bin_keep_the_order_they_were_written_in() -> None:
    plan = plan_compaction(lake_table(data_files(3, 9, 1, 7, 5)), ARTEMIS, NOW)
    assert [file.order for file in plan.bins[0].files] == [0, 1, 2, 3, 4]


def test_bins_are_the_same_whatever_order_the_manifests_are_in() -> None:
    data = data_files(*[1 + at % 7 for at in range(40)])
    one, other = (plan_compaction(lake_table(seen), MODAK, NOW) for seen in (data, data[::-1]))
    assert [[file.path for file in made.files] for made in one.bins] == [
        [file.path for file in made.files] for made in other.bins
    ]


@pytest.mark.conforms("M-068", "M-069", "M-074")
@pytest.mark.parametrize(
    ("made", "policy", "detail"),
    [
        (data_files(300, 400), MODAK, "no file is below 134,217,728 bytes; smallest file: 314,572,800 bytes"),
        (data_files(1, 2, 3), MODAK, "small files in the table: 3, needs 8"),
        (data_files(1, 2, 3, 4), SEAWEEDFS, "largest group: 4 files, needs 5"),
    ],
)
def test_a_skip_says_which_threshold_decided_and_the_nearest_value(
    made: list[LiveDataFile], policy: Policy, detail: str
) -> None:
    plan = plan_compaction(lake_table(made), policy, NOW)
    assert (plan.is_empty, plan.sentence) == (True, NOTHING)
    assert detail in plan.details


def test_deletes_that_may_not_be_applied_stop_the_compaction() -> None:
    seen = lake_table(data_files(1, 1), [delete_file("equality", 2, equality_ids=(1,))])
    assert plan_compaction(seen, replace(ARTEMIS, apply_deletes=False), NOW).sentence == DELETES_NOT_APPLIED


def test_a_file_of_any_size_in_debt_is_rewritten_with_its_deletes() -> None:
    data = data_files(900, 1)
    named = delete_file("position", 2, referenced_file=data[0].path)
    plan = plan_compaction(lake_table(data, [named]), MODAK, NOW)
    assert [(made.kernel, [f.path for f in made.files]) for made in plan.bins] == [("reencode", [data[0].path])]
    assert 96 * MB < plan.bins[0].target_bytes < 230 * MB


def test_few_deletes_below_both_thresholds_leave_a_large_file_alone() -> None:
    data = data_files(900)
    policy = replace(MODAK, delete_compaction_min_deletes=3)
    named = delete_file("position", 2, referenced_file=data[0].path)
    assert not plan_compaction(lake_table(data, [named]), policy, NOW).bins
    assert plan_compaction(lake_table(data, [replace(named, record_count=300)]), policy, NOW).bins


def test_with_delete_compaction_off_files_under_deletes_are_left() -> None:
    data = data_files(*[1] * 9)
    seen = lake_table(data, [delete_file("position", 2, referenced_file=data[0].path)])
    plan = plan_compaction(seen, replace(MODAK, delete_compaction_enabled=False), NOW)
    assert data[0] not in plan.bins[0].files


def test_where_limits_the_partitions_and_is_refused_where_there_are_none() -> None:
    data = [*data_files(1, 1, partition=("us",)), *data_files(1, 1, partition=("eu",), start=5)]
    plan = plan_compaction(lake_table(data), replace(ARTEMIS, where="region in ('us', 'it''s')"), NOW)
    assert [made.group for made in plan.bins] == [(0, ("us",))]
    with pytest.raises(BadWhere, match="not partitioned"):
        plan_compaction(lake_table(data_files(1, 1)), replace(ARTEMIS, where="region = 'us'"), NOW)
    with pytest.raises(BadWhere, match="no partition column"):
        plan_compaction(lake_table(data), replace(ARTEMIS, where="size = 3"), NOW)


@pytest.mark.parametrize(
    "text", ["region", "region = ", "region in ()", "region > 3", "a = 1 or b = 2", "a = 'x' b = 'y'"]
)
def test_a_condition_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(BadWhere):
        parse_where(text)


def test_conditions_are_joined_by_and_outside_of_quotes() -> None:
    told = parse_where("day = 2024-03-15 AND region IN ('rock and roll', 'us')")
    assert [(found.column, set(found.values)) for found in told] == [
        ("day", {"2024-03-15"}),
        ("region", {"rock and roll", "us"}),
    ]


def test_only_windows_that_are_sealed_are_planned_and_a_late_row_waits_again() -> None:
    specs = {0: (PartitionField(name="ts_day", source="ts", transform="day"),)}
    day = (NOW - datetime(1970, 1, 1, tzinfo=UTC)).days
    policy = replace(ARTEMIS, sealed_after_ms=3_600_000)
    data = [*data_files(1, 1, partition=(day - 3,)), *data_files(1, 1, partition=(day,), start=5)]
    plan = plan_compaction(lake_table(data, specs=specs), policy, NOW + timedelta(minutes=5))
    assert ([made.group for made in plan.bins], plan.details) == (
        [(0, (day - 3,))],
        (f"ts_day={day}: window not sealed",),
    )
    late = [*data, *data_files(1, partition=(day - 3,), start=8, added_ms=int(NOW.timestamp() * 1000))]
    assert not plan_compaction(lake_table(late, specs=specs), policy, NOW + timedelta(minutes=30)).bins
    assert plan_compaction(lake_table(late, specs=specs), policy, NOW + timedelta(minutes=61)).bins


def test_sealed_windows_on_a_table_without_time_say_so() -> None:
    plan = plan_compaction(lake_table(data_files(1, 1)), replace(ARTEMIS, sealed_after_ms=0), NOW)
    assert plan.bins
    assert "no partition is a window of time" in plan.details[0]


SORTED = Clustering(kind="sort", terms=(OrderTerm(column="id", field_id=1),), order_id=3)


def test_full_size_files_that_overlap_are_put_in_order_once() -> None:
    mixed = [replace(file, ends={1: (0, 100)}) for file in data_files(*[128] * 6)]
    plan = plan_compaction(lake_table(mixed), MODAK, NOW, SORTED)
    assert [len(made.files) for made in plan.bins] == [6]
    assert plan.bins[0].kernel == "sort"
    ordered = [replace(file, ends={1: (at * 10, at * 10 + 10)}, sort_order_id=3) for at, file in enumerate(mixed)]
    assert plan_compaction(lake_table(ordered), MODAK, NOW, SORTED).is_empty


def test_bins_above_the_cap_are_not_sorted() -> None:
    mixed = [replace(file, ends={1: (0, 100)}) for file in data_files(*[128] * 6)]
    plan = plan_compaction(lake_table(mixed), replace(MODAK, sort_max_input_bytes=100 * MB), NOW, SORTED)
    assert plan.sentence == "no files eligible for sorted compaction within 100 MB sort input cap"


def test_files_in_an_order_without_an_id_are_known_by_their_names() -> None:
    zorder = Clustering(kind="zorder", terms=(OrderTerm(column="a", field_id=1), OrderTerm(column="b", field_id=2)))
    mixed = [replace(file, ends={1: (0, 100), 2: (0, 100)}) for file in data_files(*[128] * 6)]
    assert plan_compaction(lake_table(mixed), MODAK, NOW, zorder).bins
    done = [replace(file, path=f"/lake/{zorder.mark}-{at}.parquet") for at, file in enumerate(mixed)]
    assert plan_compaction(lake_table(done), MODAK, NOW, zorder).is_empty
    assert zorder.render() == "zorder (a, b)"


@pytest.mark.parametrize(
    ("ranges", "depth"),
    [
        ([(0, 10), (10, 20), (20, 30)], 1.0),
        ([(0, 10)] * 4, 4.0),
        ([(0, 10), (5, 15), (20, 30)], 5 / 3),
        ([(5, 5), (5, 5), (0, 5)], 1.0),
    ],
)
def test_depth_is_the_files_a_look_up_opens(ranges: list[tuple[int, int]], depth: float) -> None:
    made = [replace(file, ends={1: ends}) for file, ends in zip(data_files(*[1] * len(ranges)), ranges, strict=True)]
    assert overlap_depth(made, [1]) == pytest.approx(depth)


def test_sort_orders_are_read_with_directions_and_nulls() -> None:
    told = parse_sort_order("id desc, kind asc nulls last", {"id": 1, "kind": 2})
    assert [term.render() for term in told] == ["id desc nulls-last", "kind asc nulls-last"]
    with pytest.raises(SortOrderUnreadable, match="no column"):
        parse_sort_order("nothing", {"id": 1})


def test_equality_deletes_apply_to_older_files_of_their_partition_whose_ranges_meet() -> None:
    data = [
        replace(file, sequence_number=sequence, ends={1: ends}, null_counts={1: 0}, value_counts={1: 10})
        for file, sequence, ends in zip(
            data_files(1, 1, 1, partition=("us",)), (1, 2, 1), ((0, 5), (0, 5), (6, 9)), strict=True
        )
    ]
    mine = delete_file(
        "equality", 2, equality_ids=(1,), partition=("us",), ends={1: (3, 4)}, null_counts={1: 0}, value_counts={1: 2}
    )
    other = replace(mine, path="/lake/other", partition=("eu",))
    index = DeleteIndex(lake_table(data, [mine, other]))
    assert [[found.path for found in index.of(file)] for file in data] == [[mine.path], [], []]


@pytest.mark.conforms("M-188")
def test_a_global_delete_whose_spec_has_no_data_is_needed_while_older_rows_live() -> None:
    specs = {0: (), 1: REGION[0]}
    data = [replace(file, sequence_number=1) for file in data_files(1, partition=("us",), spec_id=1)]
    everywhere = delete_file("equality", 2, equality_ids=(1,), spec_id=0)
    seen = lake_table(data, [everywhere], specs=specs)
    assert unneeded_deletes(seen) == ()
    assert unneeded_deletes(replace(seen, data=(replace(data[0], sequence_number=2),))) == (everywhere,)


def test_deletes_of_files_that_left_are_dangling_in_whatever_spelling() -> None:
    data = [replace(data_files(1)[0], path="file:///lake/a.parquet")]
    named = [delete_file("position", 2, paths={path: 1}) for path in ("/lake/a.parquet", "file:/lake/b.parquet")]
    seen = lake_table(data, [named[0], replace(named[1], path="/lake/d9")])
    assert [found.path for found in unneeded_deletes(seen)] == ["/lake/d9"]
    assert len(unneeded_deletes(seen, gone=[data[0].path])) == 2


def test_a_vector_takes_the_place_of_older_position_deletes() -> None:
    data = data_files(1)
    old, vector = (
        delete_file("position", 2, referenced_file=data[0].path),
        delete_file("vector", 3, referenced_file=data[0].path, offset=4),
    )
    index = DeleteIndex(lake_table(data, [old, vector]))
    assert index.of(data[0]) == (vector,)


def test_a_position_delete_reaches_a_file_of_its_own_commit() -> None:
    data = [replace(file, sequence_number=2) for file in data_files(1)]
    by_name, by_range = (
        delete_file("position", 2, referenced_file=data[0].path),
        delete_file("position", 2, lowest_path="/lake/", highest_path="/lake/z"),
    )
    older = delete_file("position", 1, paths={data[0].path: 1})
    for found in (by_name, by_range):
        assert DeleteIndex(lake_table(data, [found, older])).of(data[0]) == (found,)


def test_an_equality_delete_of_null_meets_a_file_with_nulls_whatever_their_ranges() -> None:
    (file,) = data_files(1, ends={1: (0, 5)}, null_counts={1: 3}, value_counts={1: 10})
    found = delete_file("equality", 2, equality_ids=(1,), ends={1: (8, 9)}, null_counts={1: 1}, value_counts={1: 2})
    assert DeleteIndex(lake_table([file], [found])).of(file) == (found,)
    assert DeleteIndex(lake_table([file], [replace(found, null_counts={1: 0})])).of(file) == ()
    unknown = replace(found, null_counts={})
    assert DeleteIndex(lake_table([file], [unknown])).of(file) == (unknown,)


@pytest.mark.parametrize(("low", "high"), [(5, 9), (-3, 0)])
def test_an_equality_delete_whose_range_touches_a_files_meets_it(low: int, high: int) -> None:
    (file,) = data_files(1, ends={1: (0, 5)}, null_counts={1: 0}, value_counts={1: 10})
    found = delete_file(
        "equality", 2, equality_ids=(1,), ends={1: (low, high)}, null_counts={1: 0}, value_counts={1: 2}
    )
    assert DeleteIndex(lake_table([file], [found])).of(file) == (found,)


def test_a_file_that_left_and_came_back_is_another_entry() -> None:
    (file,) = data_files(1, partition=("us",))
    assert is_same_entry(replace(file, order=7), file)
    for other in (replace(file, sequence_number=2), replace(file, partition=("eu",)), replace(file, first_row_id=0)):
        assert not is_same_entry(other, file)


def test_equality_deletes_that_iceberg_would_drop_are_found() -> None:
    """Iceberg drops delete files older than the oldest file that stays: a file that comes with an older age would get
    its rows back."""
    old, young = (
        replace(file, sequence_number=sequence) for file, sequence in zip(data_files(1, 1), (1, 5), strict=True)
    )
    needed, vector = delete_file("equality", 3, equality_ids=(1,)), delete_file("vector", 3, referenced_file=old.path)
    seen = lake_table([old, young], [needed, vector])
    assert endangered_deletes(seen, [old.path], (), last_sequence=9) == (needed,)
    assert endangered_deletes(seen, [old.path], (needed,), last_sequence=9) == ()
    assert endangered_deletes(seen, [], (), last_sequence=9) == ()
    assert endangered_deletes(seen, [old.path, young.path], (), last_sequence=3) == ()


@pytest.mark.parametrize("count", [5000])
def test_many_tiny_files_are_packed_in_no_time(count: int) -> None:
    assert sum(len(packed) for packed in pack(data_files(*[0.02] * count), 128 * MB)) == count
