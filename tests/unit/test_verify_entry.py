"""Manifest entries held against files: what is right passes, whatever the values; what leaves a value out is named."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from tests.unit.bins import iceberg_schema
from tests.unit.parquet_samples import FILES, LONG, Group, array_of, facts_of, is_nan, schema_of, write_groups

from thermocline.core.column_bounds import Value, uuid_ends
from thermocline.core.manifest_entry import FileEntry
from thermocline.core.metrics_modes import FULL, TRUNCATED
from thermocline.parquet.footer.file_metrics import FileMetrics, FooterFacts, plan_metrics
from thermocline.spark.kernels.verify_entry import EntryCheck, check_entry

MODES = {1: TRUNCATED, 2: TRUNCATED}


def entry_of(path: str, facts: FooterFacts, metrics: FileMetrics, **changes: Any) -> FileEntry:
    told: dict[str, Any] = {
        "path": path,
        "manifest": "m",
        "format": "parquet",
        "rows": facts.rows,
        "size_bytes": facts.size_bytes,
        "snapshot_id": 1,
        "split_offsets": facts.split_offsets,
        "value_counts": metrics.value_counts,
        "null_counts": metrics.null_counts,
        "nan_counts": metrics.nan_counts,
        "lower": metrics.lower,
        "upper": metrics.upper,
    }
    return FileEntry(**{**told, **changes})


def check(entry: FileEntry, kind: str) -> EntryCheck | None:
    return check_entry(entry, json.loads(iceberg_schema((1, "id", "long"), (2, "v", kind))), MODES)


def uuid_problems(lower: bytes, upper: bytes | None, highest: Value) -> list[str]:
    """Which of a UUID column's bounds hold in the order of bytes alone, by the rule that writers go by."""
    low_holds, high_holds = (end is not None for end in uuid_ends(lower, highest if upper is None else upper))
    found = [] if low_holds else ["its lower bound holds in the order of bytes alone"]
    return found if high_holds or upper is None else [*found, "its upper bound holds in the order of bytes alone"]


@settings(max_examples=200, deadline=None)
@given(FILES)
@example(("uuid", [[[bytes(16)], [bytes(7) + b"\x01" + bytes(8)]]]))
def test_what_a_writer_says_is_right_passes_and_bounds_of_one_row_group_alone_do_not(
    made: tuple[str, list[list[Group]]],
) -> None:
    kind, files = made
    groups = [group for file in files for group in file]
    values = [value for group in groups for value in group if value is not None]
    nans = {2: sum(map(is_nan, values))} if kind in ("float", "double") else {}
    numbers = [value for value in values if not is_nan(value)]
    with TemporaryDirectory() as directory:
        path, other = f"{directory}/a.parquet", f"{directory}/b.parquet"
        write_groups(Path(path), kind, groups)
        facts = facts_of(path, kind)
        right = plan_metrics(facts, MODES, nans)
        assert check(entry_of(path, facts, right), kind) is None
        write_groups(Path(other), kind, groups[:1])
        some = plan_metrics(facts_of(other, kind), {1: FULL, 2: FULL}, nans)
        if 2 not in some.lower:
            return
        expected = []
        first = [value for value in groups[0] if value is not None and not is_nan(value)]
        if min(numbers) < min(first):  # type: ignore[operator]
            expected.append("lies below its lower bound")
        if kind == "uuid":
            expected += uuid_problems(some.lower[2], right.upper.get(2), max(values))
        wrong = check(entry_of(path, facts, right, lower={**right.lower, 2: some.lower[2]}), kind)
        sentences = [] if wrong is None else [problem.sentence for problem in wrong.problems]
        assert len(sentences) == len(expected), sentences
        assert all(part in sentence for part, sentence in zip(expected, sentences, strict=True)), sentences
        if wrong is not None:
            assert wrong.right is not None
            assert check(entry_of(path, facts, wrong.right.metrics), kind) is None


def test_bounds_that_a_chunk_without_statistics_had_no_part_in_are_found_by_reading_it(tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    write_groups(Path(path), "string", [[b"m", LONG], [b"x", None]])
    facts = facts_of(path, "string")
    found = check(entry_of(path, facts, plan_metrics(facts, MODES), lower={2: b"x"}, upper={2: b"x"}), "string")
    assert found is not None
    assert [problem.sentence for problem in found.problems] == ["its lowest value 'm' lies below its lower bound 'x'"]
    assert found.right is not None
    assert (found.right.metrics.lower[2], found.right.metrics.upper[2]) == (b"m", b"x")


def test_nan_that_nobody_counted_beside_an_upper_bound_is_named(tmp_path: Path) -> None:
    """In SQL it lies above the bound, and readers would skip the file."""
    path = str(tmp_path / "a.parquet")
    write_groups(Path(path), "double", [[1.0, float("nan")], [2.0]])
    facts = facts_of(path, "double")
    upper = plan_metrics(facts, MODES, {2: 0}).upper
    found = check(entry_of(path, facts, plan_metrics(facts, MODES), upper=upper), "double")
    assert found is not None
    assert (
        found.problems[0].sentence == "1 of its values are NaN, which lie above the upper bound that its manifest has"
    )
    assert found.right is not None
    assert (2 in found.right.metrics.upper, found.right.metrics.nan_counts) == (False, {2: 1})
    counted = check(entry_of(path, facts, plan_metrics(facts, MODES), upper=upper, nan_counts={2: 1}), "double")
    assert counted is not None  # Iceberg goes by the bound although it counts NaN
    assert counted.right is not None
    assert check(entry_of(path, facts, counted.right.metrics), "double") is None


def test_a_count_that_is_nan_throughout_is_named(tmp_path: Path) -> None:
    """Readers take such a file for one that no comparison matches."""
    path = str(tmp_path / "a.parquet")
    write_groups(Path(path), "double", [[float("nan")], [float("nan")]])
    facts = facts_of(path, "double")
    found = check(entry_of(path, facts, plan_metrics(facts, MODES), nan_counts={2: 2}), "double")
    assert found is not None
    assert "all of its 2 values are NaN" in found.problems[0].sentence
    assert found.right is not None
    assert check(entry_of(path, facts, found.right.metrics), "double") is None


@pytest.mark.parametrize(("nulls", "values"), [(0, [1, None, 3]), (2, [1, 2]), (3, [1, None, 3])])
def test_counts_of_null_are_checked_where_the_footer_says_nothing(tmp_path: Path, nulls: int, values: Group) -> None:
    path = tmp_path / "a.parquet"
    table = pa.Table.from_arrays(
        [pa.array(range(len(values)), pa.int64()), array_of("long", values)], schema=schema_of("long")
    )
    pq.write_table(table, path, write_statistics=False, store_schema=False)
    facts = facts_of(str(path), "long")
    right = plan_metrics(facts, MODES)
    found = check(entry_of(str(path), facts, right, null_counts={2: nulls}), "long")
    assert found is not None
    assert [problem.sentence for problem in found.problems] == [
        f"{sum(value is None for value in values)} of its values are NULL, and its manifest says {nulls}"
    ]
    assert found.right is not None
    assert check(entry_of(str(path), facts, found.right.metrics), "long") is None


def test_bounds_of_uuids_that_hold_in_one_order_only_are_named(tmp_path: Path) -> None:
    """Spark compares them as two signed numbers, and finds nothing between 00… and e0…."""
    path = str(tmp_path / "a.parquet")
    low, high = bytes(16), b"\xe0" + bytes(15)
    write_groups(Path(path), "uuid", [[low, b"\x80" + bytes(15), high]])
    facts = facts_of(path, "uuid")
    right = plan_metrics(facts, MODES)
    for bounds in ({"lower": {2: low}, "upper": {2: high}}, {"lower": {2: low}}, {"upper": {2: high}}):
        found = check(entry_of(path, facts, right, **bounds), "uuid")
        assert found is not None
        assert "readers that take UUIDs for signed numbers skip the file" in found.problems[0].sentence
        assert found.right is not None
        assert (2 in found.right.metrics.lower, 2 in found.right.metrics.upper) == (False, False)
    assert check(entry_of(path, facts, right), "uuid") is None
