"""Partition values equal PyIceberg's own transforms, for any key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.transforms import parse_transform
from pyiceberg.types import DateType, IcebergType, IntegerType, LongType, TimestampType, TimestamptzType

from thermocline.errors import LakeLayoutUnsupported
from thermocline.parquet.values.partition_values import LakePartition, check_supported, ordinals, partition_value

MICROS = st.integers(-(2**55), 2**55)
# PyIceberg's date transforms go through Python's dates, so they end with the years 1 and 9999.
DAYS = st.integers(-719_162, 2_932_896)
KINDS: list[tuple[str, pa.DataType, IcebergType, st.SearchStrategy[int]]] = [
    *((unit, pa.timestamp("us", "UTC"), TimestamptzType(), MICROS) for unit in ("year", "month", "day", "hour")),
    *((unit, pa.timestamp("us"), TimestampType(), MICROS) for unit in ("year", "month", "day", "hour")),
    *((unit, pa.date32(), DateType(), DAYS) for unit in ("year", "month", "day", "identity")),
    ("truncate[1000]", pa.int64(), LongType(), st.integers(-(2**62), 2**62)),
    ("truncate[7]", pa.int32(), IntegerType(), st.integers(-(2**31) + 7, 2**31 - 1)),
]


@pytest.mark.parametrize(("transform", "arrow", "iceberg", "keys"), KINDS)
@given(data=st.data())
def test_ordinals_equal_pyicebergs(
    transform: str, arrow: pa.DataType, iceberg: IcebergType, keys: st.SearchStrategy[int], data: st.DataObject
) -> None:
    values = data.draw(st.lists(keys, min_size=1, max_size=20))
    partition = LakePartition(field="k_part", transform=transform, source="k")
    width = pa.int32() if arrow.bit_width == 32 else pa.int64()
    ours = ordinals(partition, pa.array(values, width).cast(arrow)).tolist()
    theirs = parse_transform(transform).transform(iceberg)
    assert ours == [theirs(value) for value in values]


@pytest.mark.parametrize(
    ("transform", "ordinal", "text", "path"),
    [
        ("year", 56, "56", "k=2026"),
        ("month", 674, "674", "k=2026-03"),
        ("month", -1, "-1", "k=1969-12"),
        ("day", 20_513, "2026-03-01", "k=2026-03-01"),
        ("day", -2_440_588, "-4713-11-24", "k=-4713-11-24"),
        ("day", 2_932_897, "+10000-01-01", "k=+10000-01-01"),
        ("hour", -1, "-1", "k=1969-12-31-23"),
        ("truncate[10]", -20, "-20", "k=-20"),
    ],
)
def test_values_are_spelled_as_iceberg_parses_them(transform: str, ordinal: int, text: str, path: str) -> None:
    value = partition_value(LakePartition(field="k", transform=transform, source="k"), ordinal, pa.timestamp("us"))
    assert (value.text, value.path) == (text, path)


def test_a_transform_that_cannot_be_computed_is_refused() -> None:
    with pytest.raises(LakeLayoutUnsupported, match=r"bucket\[16\]"):
        check_supported(LakePartition(field="k", transform="bucket[16]", source="k"))


def test_a_slice_of_keys_has_the_ordinals_of_its_own_rows() -> None:
    partition = LakePartition(field="k", transform="day", source="k")
    keys = pa.array([0, 86_400_000_000, 2 * 86_400_000_000], pa.int64()).cast(pa.timestamp("us"))
    assert ordinals(partition, keys.slice(1)).tolist() == np.array([1, 2]).tolist()
