"""Bounds of columns hold every value: random columns of every type with wild values, in any row groups, written by
every writer."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from contextlib import closing
from decimal import Context, Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from pyiceberg import conversions
from pyiceberg.types import IcebergType
from pyiceberg.types import PrimitiveType as IcebergPrimitive
from tests.unit.bins import Bin, iceberg_schema, lake_field, local
from tests.unit.parquet_samples import FILES, LONG, PREFIX, Group, array_of, facts_of, is_nan, schema_of, write_groups

from thermocline.core.column_bounds import (
    Value,
    decode_bound,
    lower_bound,
    upper_bound,
    uuid_ends,
)
from thermocline.core.columns import LakeColumn
from thermocline.core.metrics_modes import FULL, NO_METRICS, TRUNCATED, MetricsMode, plan_metrics_modes
from thermocline.core.types import PrimitiveType, parse_lake_type
from thermocline.parquet.copy import merge_plan
from thermocline.parquet.encode.lake_writer import FileTarget, LakeWriter
from thermocline.parquet.footer.file_metrics import (
    CopiedInput,
    FileMetrics,
    FooterFacts,
    fields_without_bounds,
    merge_input_bounds,
    plan_metrics,
)
from thermocline.parquet.rewrite_task import BinResult, SortField

DISPUTED = ("float", "double", "uuid")
"""Kinds that readers order differently: NaN above all or nowhere, UUIDs by bytes or as signed numbers."""


def check_holds(metrics: FileMetrics, kind: str, values: Sequence[Value | None], *, is_cut: bool = False) -> None:
    """No value lies outside, and a bound that is not cut is a value that is there."""
    column = parse_lake_type(kind)
    assert column is not None
    there = [value for value in values if value is not None]
    numbers = [value for value in there if not is_nan(value)]
    if (
        kind not in ("uuid", "float", "double") or 2 in metrics.null_counts
    ):  # those of uuids and floats are known from no footer of ours
        assert (metrics.value_counts[2], metrics.null_counts[2]) == (len(values), len(values) - len(there))
    if (low := metrics.lower.get(2)) is not None:
        bound = decode_bound(column, low)
        assert bound is not None
        assert all(bound <= value for value in numbers), (bound, numbers)  # type: ignore[operator]
        assert not is_zero(bound) or math.copysign(1, bound) < 0  # type: ignore[arg-type]
    if (high := metrics.upper.get(2)) is not None:
        bound = decode_bound(column, high)
        assert bound is not None
        assert all(value <= bound for value in there), (bound, there)  # type: ignore[operator]
        assert not is_zero(bound) or math.copysign(1, bound) > 0  # type: ignore[arg-type]
    if kind == "uuid":
        check_java_order(there, low, high)
    elif not is_cut and is_fully_told(column, there):
        assert (low is not None, high is not None) == (bool(there), bool(there))


def check_java_order(there: Sequence[Value], low: bytes | None, high: bytes | None) -> None:
    """Iceberg's Java library compares uuids as Java does: either half is a signed number."""
    ordered = [java_order(value) for value in there]
    assert low is None or all(java_order(low) <= value for value in ordered)
    assert high is None or all(value <= java_order(high) for value in ordered)


def java_order(value: Value) -> tuple[int, int]:
    assert isinstance(value, bytes)
    return int.from_bytes(value[:8], "big", signed=True), int.from_bytes(value[8:], "big", signed=True)


def is_zero(bound: Value) -> bool:
    return isinstance(bound, float) and bound == 0.0


_LAST = "\U0010ffff".encode()
"""What begins so, or with the byte ff, cannot be raised when it is cut to one."""


def is_fully_told(column: PrimitiveType, there: Sequence[Value]) -> bool:
    """Whether nothing stands in the way of bounds: no NaN, no text that is too long, none that cannot be raised."""
    if column.kind in ("float", "double"):
        return False
    return all(
        not isinstance(value, bytes) or (len(value) <= 16 and not value.startswith((b"\xff", _LAST))) for value in there
    )


@settings(max_examples=400, deadline=None)
@given(FILES)
@example(("string", [[[b"m", LONG], [b"x"]], [[b"z"]]]))
@example(("binary", [[[b"\xff" * 5_000, b"a"]], [[b"b"], [None]]]))
@example(("double", [[[math.nan, 5.0]], [[7.0, -0.0]], [[0.0]]]))
def test_bounds_of_a_footer_hold_every_value_in_any_row_groups(made: tuple[str, list[list[Group]]]) -> None:
    kind, files = made
    groups = [group for file in files for group in file]
    values = [value for group in groups for value in group]
    with TemporaryDirectory() as directory:
        write_groups(Path(directory) / "a.parquet", kind, groups)
        facts = facts_of(f"{directory}/a.parquet", kind)
    for mode in (FULL, TRUNCATED, MetricsMode(counts=True, bounds=True, length=1)):
        for nans in (None, {2: sum(map(is_nan, values))} if kind in ("float", "double") else None):
            check_holds(plan_metrics(facts, {1: mode, 2: mode}, nans), kind, values, is_cut=mode.length == 1)
    assert not plan_metrics(facts, {1: TRUNCATED, 2: NO_METRICS}).lower.get(2)


@settings(max_examples=150, deadline=None)
@given(FILES)
@example(("string", [[[b"m", LONG], [b"x"]], [[b"z"]]]))
@example(("binary", [[[b"\xff" * 5_000, b"a"]], [[b"b"], [None]]]))
@example(("double", [[[math.nan, 5.0]], [[7.0, -0.0]], [[0.0]]]))
def test_bounds_of_what_tiering_and_folding_write_hold_every_value(made: tuple[str, list[list[Group]]]) -> None:
    kind, files = made
    if kind == "fixed[20]":
        kind, files = "string", [[[b"m" * 5_000, None], [b"x"]]]
    values = [value for file in files for group in file for value in group]
    columns = (lake_column("id", 1, "long"), lake_column("v", 2, kind))
    with TemporaryDirectory() as directory:
        target = FileTarget(
            columns=columns,
            tier_key="id",
            partition=None,
            directory=f"file://{directory}",
            stem="s",
            target_file_bytes=1 << 30,
            compression_level=1,
            row_group_bytes=1,
        )
        writer = LakeWriter(target, lambda _: None)
        for file in files:
            for group in file:
                arrays = [pa.array(range(len(group)), pa.int64()), array_of(kind, group)]
                writer.write(pa.RecordBatch.from_arrays(arrays, names=["id", "v"]))
        writer.close()
        (written,) = writer.files
        metrics = plan_metrics(
            facts_of(written.path, kind), {1: TRUNCATED, 2: TRUNCATED}, written.nan_counts, written.float_ends
        )
    check_holds(metrics, kind, values)
    if kind in ("float", "double"):
        assert (2 in metrics.upper) == (any(v is not None for v in values) and not any(map(is_nan, values)))


def lake_column(name: str, field_id: int, kind: str) -> LakeColumn:
    return LakeColumn(
        name=name, field_id=field_id, base_type="", pg_type="", lake_type=kind, form="native", required=False
    )


SORT = (SortField(field_id=2), SortField(field_id=1))
KERNELS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "splice": ("splice", {}),
    "merge": ("splice", {"splice_min_row_group_bytes": 1 << 30}),
    "reencode": ("reencode", {}),
    "sort": ("sort", {"sort": SORT}),
    "zorder": ("zorder", {"sort": SORT}),
}


@pytest.mark.parametrize("wanted", KERNELS)
@settings(max_examples=60, deadline=None)
@given(FILES)
@example(("string", [[[b"m", LONG], [b"x"]], [[b"z"]]]))
@example(("binary", [[[b"\xff" * 5_000, b"a"]], [[b"b"], [None]]]))
@example(("double", [[[math.nan, 5.0]], [[7.0, -0.0]], [[0.0]]]))
def test_bounds_of_what_compaction_writes_hold_every_value(wanted: str, made: tuple[str, list[list[Group]]]) -> None:
    kind, files = made
    kernel, changes = KERNELS[wanted]
    values = [value for file in files for group in file for value in group]
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge_plan, "MIN_PAGE_VALUES", 0)  # so that merge copies pages as small as these
        patch.setattr(merge_plan, "LEAST_COPIED", 0.0)
        bin = Bin(Path(directory), iceberg_schema((1, "id", "long"), (2, "v", kind)))
        for number, groups in enumerate(files):
            path = Path(directory) / f"in-{number}.parquet"
            bin.add_file(path, write_groups(path, kind, groups))
        result = bin.run(kernel, **changes)
        (output,) = result.outputs
        facts, nans = facts_of(output.path, kind), output.nan_counts
        known: dict[int, Any] = dict(output.float_ends)
        if nans is None:
            nans, known = copied_facts(bin, kind, files, facts)
        assert_no_disputed_bounds(output.path, kind)
    metrics = plan_metrics(facts, {1: TRUNCATED, 2: TRUNCATED}, nans, known)
    assert_kernel(result, wanted, kind)
    check_holds(metrics, kind, values)


@pytest.mark.parametrize("page_rows", [3_000, 20_000])
@pytest.mark.parametrize("kind", ["double", "uuid"])
def test_merged_chunks_have_no_bounds_that_hide_nan_or_half_of_the_uuids(
    tmp_path: Path, kind: str, page_rows: int
) -> None:
    """Files of Arrow's, whose statistics leave NaN out: pages that are copied, and tiny ones that are encoded again."""
    bin = Bin(tmp_path, iceberg_schema((1, "id", "long"), (2, "v", kind), (3, "body", "string")))
    schema = pa.schema([*schema_of(kind), lake_field("body", pa.string(), 3)])
    numbers = [math.nan, *[5.5] * (page_rows - 1)]
    uuids = [bytes([number % 256]) + bytes(15) for number in range(page_rows)]
    chance = random.Random(7)
    for _ in range(3):
        bodies = pa.array([chance.randbytes(300).hex() for _ in range(page_rows)])
        arrays = [
            pa.array(range(page_rows), pa.int64()),
            array_of(kind, numbers if kind == "double" else uuids),
            bodies,
        ]
        bin.add(pa.Table.from_arrays(arrays, schema=schema), use_dictionary=False, write_page_index=True)
    result = bin.run("splice", splice_min_row_group_bytes=8 << 20)
    assert result.kernel == "merge", result.note
    (output,) = result.outputs
    assert_no_disputed_bounds(output.path, kind)
    condition = "v > 5.5" if kind == "double" else "v = '80000000-0000-0000-0000-000000000000'"
    with closing(duckdb.connect()) as conn:
        query = f"select count(*) from read_parquet(?) where {condition}"
        assert conn.execute(query, [local(output.path)]).fetchone() == (
            3 if kind == "double" else 3 * len(range(128, page_rows, 256)),
        )


@pytest.mark.parametrize("kind", ["double", "uuid"])
def test_large_row_groups_with_misleading_bounds_are_copied_without_them(tmp_path: Path, kind: str) -> None:
    bin = Bin(tmp_path, iceberg_schema((1, "id", "long"), (2, "v", kind)))
    for _ in range(2):
        values: Group = [math.nan, 1.0] if kind == "double" else [bytes(16), b"\xff" * 16]
        arrays = [pa.array(range(2), pa.int64()), array_of(kind, values)]
        bin.add(pa.Table.from_arrays(arrays, schema=schema_of(kind)), use_dictionary=False)
    result = bin.run("splice", splice_min_row_group_bytes=0)
    assert result.kernel != "splice"
    assert "misleading bounds" in result.note
    (output,) = result.outputs
    assert_no_disputed_bounds(output.path, kind)


def copied_facts(
    bin: Bin, kind: str, files: Sequence[Sequence[Group]], facts: FooterFacts
) -> tuple[dict[int, int], dict[int, Any]]:
    """NaN counts and bounds of the inputs as a writer that knew every value has put them in the manifest."""
    column = parse_lake_type(kind)
    assert column is not None
    inputs, nans = [], 0
    for file, groups in zip(bin.inputs, files, strict=True):
        there = [value for group in groups for value in group if value is not None]
        nans += sum(map(is_nan, there))
        numbers = sorted(value for value in there if not is_nan(value))
        low = lower_bound(column, numbers[0], 16) if numbers else None
        high = upper_bound(column, numbers[-1], 16) if numbers else None
        inputs.append(
            CopiedInput(
                facts=facts_of(file.path, kind),
                lower={2: low} if low is not None else {},
                upper={2: high} if high is not None else {},
            )
        )
    return {2: nans} if column.kind in ("float", "double") else {}, merge_input_bounds(
        inputs, fields_without_bounds(facts)
    )


def assert_kernel(result: BinResult, wanted: str, kind: str) -> None:
    """Merge may leave what it cannot do to re-encoding, and splice what has misleading bounds to merge; others are the
    one asked."""
    may_be_other = wanted == "merge" or (wanted == "splice" and kind in DISPUTED)
    assert result.kernel == wanted or may_be_other, (result.kernel, result.note)


def assert_no_disputed_bounds(path: str, kind: str) -> None:
    """No footer of ours has bounds of floats or UUIDs, by which readers skip row groups that hold what they look
    for."""
    metadata = pq.read_metadata(local(path))
    for number in range(metadata.num_row_groups) if kind in DISPUTED else ():
        chunk = metadata.row_group(number).column(1)
        assert not (chunk.is_stats_set and chunk.statistics.has_min_max), (kind, number)
        assert not chunk.has_column_index, (kind, number)


def test_a_chunk_without_statistics_takes_the_bounds_of_its_column_and_no_others(tmp_path: Path) -> None:
    write_groups(tmp_path / "a.parquet", "string", [[b"m", LONG], [b"x", b"y"]])
    facts = facts_of(str(tmp_path / "a.parquet"), "string")
    metrics = plan_metrics(facts, {1: TRUNCATED, 2: TRUNCATED})
    assert (set(metrics.lower), set(metrics.upper)) == ({1}, {1})
    assert (metrics.value_counts[2], metrics.null_counts[2]) == (4, 0)
    assert fields_without_bounds(facts) == (2,)


def test_a_row_group_of_null_throughout_needs_no_bounds(tmp_path: Path) -> None:
    write_groups(tmp_path / "a.parquet", "string", [[None, None], [b"x", b"y"]])
    metrics = plan_metrics(facts_of(str(tmp_path / "a.parquet"), "string"), {2: TRUNCATED})
    assert (metrics.lower[2], metrics.upper[2], metrics.null_counts[2]) == (b"x", b"y", 2)


def test_an_inputs_manifest_is_believed_only_where_none_of_its_chunks_vouches(tmp_path: Path) -> None:
    """Bounds that a chunk without statistics had no part in are what older programs wrote into manifests."""
    write_groups(tmp_path / "none.parquet", "string", [[b"m", LONG]])
    write_groups(tmp_path / "some.parquet", "string", [[b"m", LONG], [b"x", b"y"]])
    write_groups(tmp_path / "all.parquet", "string", [[b"q"], [b"x", b"z"]])

    def copied(name: str, low: bytes = b"", high: bytes = b"") -> CopiedInput:
        facts = facts_of(str(tmp_path / f"{name}.parquet"), "string")
        return CopiedInput(facts=facts, lower={2: low} if low else {}, upper={2: high} if high else {})

    assert merge_input_bounds([copied("none", b"m", b"n"), copied("all", b"wrong", b"wrong")], [2]) == {2: (b"m", b"z")}
    assert merge_input_bounds([copied("none"), copied("all")], [2]) == {2: (None, None)}
    assert merge_input_bounds([copied("none", b"m"), copied("all")], [2]) == {2: (b"m", None)}
    assert merge_input_bounds([copied("some", b"x", b"y"), copied("all")], [2]) == {2: (None, None)}


def test_text_is_cut_at_a_character_and_the_upper_bound_is_raised_past_what_no_text_holds() -> None:
    text = parse_lake_type("string")
    assert text is not None
    assert lower_bound(text, ("é" * 20).encode(), 16) == ("é" * 16).encode()
    assert upper_bound(text, (PREFIX + "!").encode(), 16) == b"twenty letters b"
    assert upper_bound(text, ("a" + "\ud7ff" * 20).encode(), 2) == "a\ue000".encode()
    assert upper_bound(text, ("a" + "\U0010ffff" * 20).encode(), 16) == b"b"
    assert upper_bound(text, ("\uffff" * 20).encode(), 3) == ("\uffff" * 2 + "\U00010000").encode()
    assert upper_bound(text, ("\U0010ffff" * 20).encode(), 16) is None
    assert upper_bound(text, ("\U0010ffff" * 16).encode(), 16) == ("\U0010ffff" * 16).encode()
    assert (lower_bound(text, b"ab\xf0\x9f", 16), upper_bound(text, b"ab\xf0\x9f", 16)) == (None, None)


@pytest.mark.parametrize(
    ("kind", "value", "theirs"),
    [
        ("boolean", 1, True),
        ("int", -5, -5),
        ("long", 2**40, 2**40),
        ("date", -719_528, -719_528),
        ("time", 86_399_999_999, 86_399_999_999),
        ("timestamptz", -1, -1),
        ("timestamp_ns", 2**62, 2**62),
        ("float", 1.5, 1.5),
        ("double", -1e300, -1e300),
        ("decimal(38, 2)", -(10**37), Decimal(-(10**35)).quantize(Decimal("0.01"), context=Context(prec=60))),
        ("decimal(9, 2)", 128, Decimal("1.28")),
        ("decimal(9, 2)", -128, Decimal("-1.28")),
        ("string", "häß\U0001f600".encode(), "häß\U0001f600"),
        ("uuid", bytes(range(16)), bytes(range(16))),
        ("fixed[3]", b"abc", b"abc"),
        ("binary", b"\x00\xff", b"\x00\xff"),
    ],
)
def test_a_bound_has_the_bytes_that_pyiceberg_writes(kind: str, value: Value, theirs: Any) -> None:
    column = parse_lake_type(kind)
    assert column is not None
    wanted = conversions.to_bytes(cast(IcebergPrimitive, IcebergType.model_validate(kind)), theirs)
    assert lower_bound(column, value, None) == upper_bound(column, value, None) == wanted
    assert decode_bound(column, wanted) == value


def test_binary_is_never_cut() -> None:
    """Spark answers min() and max() of it by the bounds, and would take a part for the whole."""
    for kind in (parse_lake_type("binary"), parse_lake_type("fixed[17]")):
        assert kind is not None
        assert (lower_bound(kind, b"a" * 17, 16), upper_bound(kind, b"a" * 17, 16)) == (None, None)
        assert (lower_bound(kind, b"a" * 17, None), upper_bound(kind, b"a" * 17, 17)) == (b"a" * 17, b"a" * 17)


def test_uuids_made_by_their_time_keep_the_lower_bound_and_random_ones_have_none() -> None:
    """Version 7 begins with the time, and its second half with the bits 10; version 4 is spread over both signs."""
    early, late = bytes.fromhex("0190a0000000700080000000000000ff"), bytes.fromhex("0190b0000000700090000000000000ff")
    assert uuid_ends(early, late) == (early, None)
    assert uuid_ends(bytes(16), b"\xff" * 16) == (None, None)
    assert uuid_ends(bytes(15) + b"\x01", bytes(15) + b"\x07") == (bytes(15) + b"\x01", bytes(15) + b"\x07")


def test_the_key_and_what_partitions_are_made_of_have_bounds_beyond_the_hundredth_column() -> None:
    columns = [{"id": at, "name": f"c{at}", "required": False, "type": "int"} for at in range(1, 110)]
    told: dict[str, Any] = {
        "current-schema-id": 0,
        "schemas": [{"schema-id": 0, "fields": columns, "identifier-field-ids": [105]}],
        "partition-specs": [
            {
                "spec-id": 0,
                "fields": [{"source-id": 107, "transform": "month"}, {"source-id": 108, "transform": "void"}],
            }
        ],
    }
    modes = plan_metrics_modes(told)
    assert [at for at in range(101, 110) if modes[at].bounds] == [105, 107]
    told["properties"] = {"write.metadata.metrics.default": "none", "write.metadata.metrics.column.c105": "counts"}
    modes = plan_metrics_modes(told)
    assert [at for at in range(1, 110) if modes[at].bounds] == [107]


def test_metrics_modes_are_read_as_iceberg_reads_them() -> None:
    columns = [{"id": at, "name": f"c{at}", "required": False, "type": "int"} for at in range(1, 104)]
    order = [{"source-id": 103, "transform": "identity"}, {"source-id": 102, "transform": "bucket[4]"}]
    told: dict[str, Any] = {
        "current-schema-id": 0,
        "schemas": [{"schema-id": 0, "fields": columns}],
        "default-sort-order-id": 1,
        "sort-orders": [{"order-id": 1, "fields": order}],
    }
    modes = plan_metrics_modes(told)
    assert (modes[1], modes[100], modes[101], modes[102], modes[103]) == (
        TRUNCATED,
        TRUNCATED,
        NO_METRICS,
        NO_METRICS,
        TRUNCATED,
    )
    told["properties"] = {"write.metadata.metrics.default": "counts", "write.metadata.metrics.column.c7": "full"}
    modes = plan_metrics_modes(told)
    assert (modes[101].counts, modes[101].bounds, modes[7], modes[103]) == (True, False, FULL, TRUNCATED)
    told["properties"] = {"write.metadata.metrics.default": "truncate(4)", "write.metadata.metrics.column.c103": "none"}
    modes = plan_metrics_modes(told)
    assert (modes[101].length, modes[103]) == (4, NO_METRICS)
