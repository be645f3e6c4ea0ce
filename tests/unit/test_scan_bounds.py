"""What the bounds of a snapshot's files prove of a column, beyond the files they leave out."""

from __future__ import annotations

from decimal import Decimal

import pytest

from thermocline.lake.read.scan import Bound, Op, is_certain
from thermocline.lake.read.table_metadata import LakeField, SnapshotFile

KEY = LakeField(name="ts", field_id=2, kind="timestamptz")


def _file(lower: dict[int, bytes], upper: dict[int, bytes], *, nulls: int = 0) -> SnapshotFile:
    return SnapshotFile(
        path="f", record_count=10, size_bytes=1, sequence_number=1, lower=lower, upper=upper, null_counts={2: nulls}
    )


def _keys(low: int, high: int, *, nulls: int = 0) -> SnapshotFile:
    return _file({2: low.to_bytes(8, "little", signed=True)}, {2: high.to_bytes(8, "little", signed=True)}, nulls=nulls)


@pytest.mark.parametrize(
    ("op", "value", "certain"),
    [
        ("<", 201, True),
        ("<", 200, False),
        ("<=", 200, True),
        ("<=", 199, False),
        (">=", -5, True),
        (">=", -4, False),
        (">", -6, True),
        (">", -5, False),
        ("=", 100, False),
    ],
)
def test_a_comparison_is_certain_only_when_the_outermost_bounds_satisfy_it(op: Op, value: int, certain: bool) -> None:
    data = (_keys(-5, 99), _keys(100, 200))
    assert is_certain(data, Bound(field=KEY, op=op, values=(value,))) is certain


@pytest.mark.parametrize(
    "odd",
    [_file({}, {}), _keys(0, 1, nulls=1), _keys(0, 1, nulls=10), _file({2: bytes(4)}, {2: bytes(4)})],
    ids=["a file without bounds", "a null", "only nulls", "days, of a column that is a timestamp by now"],
)
def test_nothing_is_certain_of_rows_that_no_bound_speaks_of(odd: SnapshotFile) -> None:
    for op, value in (("<", 100), ("<=", 2**63 - 1), (">=", -(2**63)), (">", -1)):
        assert not is_certain((_keys(0, 1), odd), Bound(field=KEY, op=op, values=(value,)))  # type: ignore[arg-type]


def test_a_column_without_nulls_is_certainly_not_null() -> None:
    assert is_certain((_keys(0, 1),), Bound(field=KEY, op="is not null"))
    assert not is_certain((_keys(0, 1), _keys(0, 1, nulls=1)), Bound(field=KEY, op="is not null"))


def test_decimals_texts_and_lists_of_values_are_asked_of_each_row() -> None:
    price = LakeField(name="price", field_id=2, kind="decimal", precision=12, scale=2)
    assert not is_certain((_keys(0, 1),), Bound(field=price, op="<", values=(Decimal(100),)))
    assert not is_certain((_keys(0, 1),), Bound(field=KEY, op="<", values=(100, 200)))
