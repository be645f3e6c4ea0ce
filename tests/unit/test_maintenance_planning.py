"""What compaction plans, from pass to pass: fixed points, sizes of outputs, write amplification, spans of keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit import bins as kernel_bins
from tests.unit.compaction_inputs import (
    ARTEMIS,
    MB,
    MODAK,
    NOW,
    SEAWEEDFS,
    bin_sizes,
    data_files,
    delete_file,
    lake_table,
)

from thermocline.core.lake_file import LiveDataFile
from thermocline.core.maintenance.bins import CompactionPlan, plan_compaction, plan_target
from thermocline.core.maintenance.files import PartitionField
from thermocline.core.policy.iceberg_format import ICEBERG
from thermocline.core.policy.operations import check_operations
from thermocline.core.policy.policy import Policy
from thermocline.errors.maintenance import BadWhere

ANY_TWO = replace(ARTEMIS, rewrite_target_bytes=128 * MB, small_file_threshold_bytes=0)
ANY_SIZES = st.lists(st.floats(0.1, 200), max_size=60)


def after(data: Sequence[LiveDataFile], plan: CompactionPlan, bins: int | None = None) -> list[LiveDataFile]:
    """The table once these bins are committed: outputs are as large as their inputs and younger than what was left."""
    done = plan.bins[:bins]
    gone = {file.path for made in done for file in made.files}
    outputs = [
        replace(
            made.files[0],
            path=f"/new/{made.files[0].path}",
            size_bytes=made.size_bytes,
            record_count=sum(file.record_count for file in made.files),
            ends={
                1: (
                    min(file.ends.get(1, (0, 0))[0] for file in made.files),
                    max(file.ends.get(1, (0, 0))[1] for file in made.files),
                )
            },
            order=len(data) + made.files[0].order,
        )
        for made in done
    ]
    kept = sorted((*(file for file in data if file.path not in gone), *outputs), key=lambda file: file.order)
    return [replace(file, order=at) for at, file in enumerate(kept)]


def paths(plan: CompactionPlan) -> list[list[str]]:
    return [[file.path for file in made.files] for made in plan.bins]


@pytest.mark.conforms("M-057")
@pytest.mark.parametrize(
    "policy", [ANY_TWO, replace(MODAK, rewrite_min_input_files=2), replace(SEAWEEDFS, rewrite_target_bytes=64 * MB)]
)
@given(made=ANY_SIZES)
@example(made=[100.0, 25.0, 70.0, 25.0])  # two large files that nothing outweighs, until the small ones are one
def test_planning_twice_gives_the_same_and_planning_after_the_pass_gives_nothing(
    policy: Policy, made: list[float]
) -> None:
    data = data_files(*made)
    plan = plan_compaction(lake_table(data), policy, NOW)
    assert paths(plan_compaction(lake_table(data[::-1]), policy, NOW)) == paths(plan)
    assert plan_compaction(lake_table(after(data, plan)), policy, NOW).is_empty


@pytest.mark.conforms("M-056")
@given(made=ANY_SIZES)
def test_no_bin_exceeds_the_target_and_none_is_small_where_files_are_many(made: list[float]) -> None:
    """An output is below three quarters of the target only when its partition has no more small files to give it."""
    plan = plan_compaction(lake_table(data_files(*made)), ANY_TWO, NOW)
    assert all(found.size_bytes <= 128 * MB and len(found.files) > 1 for found in plan.bins)
    tiny = plan_compaction(lake_table(data_files(*(size / 10 for size in made))), ANY_TWO, NOW)
    assert sum(found.size_bytes < 0.75 * 128 * MB for found in tiny.bins) <= 1
    assert all(
        found.target_bytes >= 180 * MB for found in plan.bins
    )  # so a bin becomes one file, whatever the encoding adds


@pytest.mark.conforms("M-056")
@pytest.mark.parametrize("times", [1.3, 1.6, 2.4, 4.5])
def test_a_file_larger_than_the_target_is_cut_into_outputs_near_it(tmp_path: Path, times: float) -> None:
    policy = replace(MODAK, rewrite_target_bytes=8 * MB)
    rows = int(times * policy.rewrite_target_bytes / 8)
    made = kernel_bins.Bin(tmp_path, schema=kernel_bins.iceberg_schema((1, "id", "long")))
    values = pa.array(np.random.default_rng(7).integers(-(2**62), 2**62, rows))
    told = pa.table([values], schema=pa.schema([kernel_bins.lake_field("id", pa.int64(), 1)]))
    path = made.add(told, compression="none", use_dictionary=False)
    made.delete_positions([(path, 5)])
    result = made.run("reencode", target_bytes=plan_target(made.inputs[0].size_bytes, policy), compression_level=1)
    shares = [output.size_bytes / policy.rewrite_target_bytes for output in result.outputs]
    assert len(shares) == round(result.bytes_read / policy.rewrite_target_bytes)
    assert all(0.75 <= share <= 1.8 for share in shares), shares
    assert result.rows_written == rows - 1


@pytest.mark.conforms("M-058")
def test_a_large_file_is_not_rewritten_to_absorb_a_few_tiny_ones() -> None:
    policy = replace(ARTEMIS, rewrite_target_bytes=256 * MB, small_file_threshold_bytes=0)
    data = data_files(180, 1, 1, 1, 1)
    rewritten = 0
    for _ in range(20):
        plan = plan_compaction(lake_table(data), policy, NOW)
        rewritten += sum(file.size_bytes >= 180 * MB for made in plan.bins for file in made.files)
        data = after(data, plan)
        data = [
            *data,
            *(replace(file, path=f"/more/{len(data)}/{file.order}") for file in data_files(1, 1, start=len(data))),
        ]
    assert rewritten <= 1
    assert bin_sizes(plan_compaction(lake_table(data_files(180, 1, 1, 1, 1)), policy, NOW)) == [[1, 1, 1, 1]]
    assert plan_compaction(lake_table(data_files(180, 4)), policy, NOW).is_empty


DAYS = {
    0: (
        PartitionField(name="day", source="ts", transform="day"),
        PartitionField(name="region", source="region", transform="identity"),
    )
}


@pytest.mark.conforms("M-059")
@pytest.mark.parametrize(
    ("where", "chosen"),
    [
        ("day = '2024-03-15'", {"15 us", "15 eu"}),
        ("day = 2024-03-15 AND region = us", {"15 us"}),
        ("ts in ('2024-03-15', '2024-03-16') and region in ('eu', 'ap')", {"15 eu", "16 eu"}),
        ("region = 'nowhere'", set()),
    ],
)
def test_where_limits_the_scope_to_partitions(where: str, chosen: set[str]) -> None:
    """Planned here; `test_where_names_a_day_and_windows_that_are_open_are_left` runs it."""
    days = {19797: "15", 19798: "16"}
    data = [file for day in days for region in ("us", "eu") for file in data_files(1, 1, partition=(day, region))]
    texts = {
        (0, (day, region)): {"day": f"2024-03-{days[day]}", "region": region} for day in days for region in ("us", "eu")
    }
    plan = plan_compaction(lake_table(data, specs=DAYS, texts=texts), replace(ARTEMIS, where=where), NOW)
    assert {f"{days[made.group[1][0]]} {made.group[1][1]}" for made in plan.bins} == chosen  # type: ignore[index]


@pytest.mark.conforms("M-059")
@pytest.mark.parametrize(
    ("policy", "asked", "refused"),
    [
        (Policy(), ("compact",), None),
        (Policy(), ("compact", "rewrite_manifests"), None),
        (Policy(), ("compact", "expire_snapshots"), "expire_snapshots"),
        (Policy(orphan_sweep_enabled=True), ("remove_orphans",), "remove_orphans"),
        (Policy(), (), "expire_snapshots"),
        (Policy(operations=("compact",)), (), None),
        (Policy(snapshot_expiry_enabled=False), (), None),
        (Policy(preset="seaweedfs", snapshot_expiry_enabled=False, orphan_sweep_enabled=True), (), "remove_orphans"),
    ],
)
def test_where_is_refused_with_expiry_or_orphans_selected_and_on_an_unpartitioned_table(
    policy: Policy, asked: tuple[str, ...], refused: str | None
) -> None:
    check_operations(policy, ICEBERG, asked)
    limited = replace(policy, where="region = 'us'")
    if refused is None:
        check_operations(limited, ICEBERG, asked)
    else:
        with pytest.raises(BadWhere, match=refused):
            check_operations(limited, ICEBERG, asked)
    with pytest.raises(BadWhere, match="not partitioned"):
        plan_compaction(lake_table(data_files(1, 1)), limited, NOW)


@pytest.mark.conforms("M-063")
def test_an_oversized_group_is_split_and_its_rest_obeys_the_minimum() -> None:
    data = data_files(*[31.25] * 8, *[34.28] * 7, *[22] * 5)
    first, second, third = ([file.path for file in part] for part in (data[:8], data[8:15], data[15:]))
    for least, expected in ((5, [first, second, third]), (6, [first, second])):
        plan = plan_compaction(lake_table(data), replace(SEAWEEDFS, rewrite_min_input_files=least), NOW)
        assert sorted(paths(plan)) == sorted(expected)
        assert sorted(made.size_bytes // MB for made in plan.bins) in ([110, 239, 250], [239, 250])
        assert all(made.size_bytes <= 256 * MB for made in plan.bins)


@pytest.mark.conforms("M-079")
def test_debt_is_so_many_delete_files_or_so_large_a_share_of_rows_whatever_the_size() -> None:
    large, small = data_files(900, 3)
    policy = replace(MODAK, delete_compaction_min_deletes=3, delete_ratio_threshold=0.3)

    def rewritten(file: LiveDataFile, *rows: int) -> bool:
        named = [
            replace(delete_file("position", 2, referenced_file=file.path), path=f"/lake/d{at}", record_count=count)
            for at, count in enumerate(rows)
        ]
        plan = plan_compaction(lake_table([file], named), policy, NOW)
        assert all(made.kernel == "reencode" and made.deletes for made in plan.bins)
        return bool(plan.bins)

    for file in (large, small):
        assert not rewritten(file, 1, 1)
        assert rewritten(file, 1, 1, 1)
        assert not rewritten(file, 299)
        assert rewritten(file, 300)
        assert rewritten(file, 150, 150)


@pytest.mark.conforms("M-197")
@given(made=st.lists(st.floats(2, 4), min_size=2, max_size=300))
@example(made=[3.9] * 52 + [2.0])  # the last file would fit into what the first bin has left
def test_a_files_span_of_keys_grows_no_faster_than_its_rows(made: list[float]) -> None:
    """Files came in the order of their keys and of similar size, so a merged file must span more; for the rows it
    holds, it may not."""
    data: list[LiveDataFile] = []
    for at, file in enumerate(data_files(*made)):
        start = sum(found.record_count for found in data)
        data.append(replace(file, record_count=file.size_bytes, ends={1: (start, start + file.size_bytes)}, order=at))

    def span_per_row(seen: Sequence[LiveDataFile]) -> float:
        return float(median((file.ends[1][1] - file.ends[1][0]) / file.record_count for file in seen))

    packed = after(data, plan_compaction(lake_table(data), ANY_TWO, NOW))
    assert span_per_row(packed) <= span_per_row(data)


@pytest.mark.conforms("M-217")
def test_with_steady_commits_the_table_stays_small_and_no_byte_is_rewritten_again_and_again() -> None:
    data: list[LiveDataFile] = []
    written = 0
    for commit in range(600):
        data = [*data, replace(data_files(1)[0], path=f"/in/{commit}", order=len(data))]
        if commit % 5 == 4:
            plan = plan_compaction(lake_table(data), ANY_TWO, NOW)
            written += sum(made.size_bytes for made in plan.bins)
            data = after(data, plan)
            assert len(data) <= 600 / 128 + math.log(128, 1.5) + 5
    assert written / (600 * MB) <= math.log(128, 1.5) + 1  # each rewrite makes the file of a byte half as large again


@pytest.mark.conforms("M-217")
def test_work_that_exceeds_the_limit_of_a_pass_goes_on_with_the_next_one() -> None:
    data, counts = data_files(*[4] * 400), []
    while (plan := plan_compaction(lake_table(data), ANY_TWO, NOW)).bins:
        data = after(data, plan, bins=2)
        counts.append(len(data))
    assert counts == sorted(counts, reverse=True)
    assert len(counts) == len(set(counts)) == 7
    assert counts[-1] == 13
