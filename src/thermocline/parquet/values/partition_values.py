"""The lake partition of a row: Iceberg's partition transforms of the tier key, vectorised."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thermocline.errors import LakeLayoutUnsupported

_UNITS = {"year": "Y", "month": "M", "day": "D", "hour": "h"}
_TRUNCATE = re.compile(r"truncate\[(\d+)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class LakePartition:
    """The one partition field of a lake table: its name, Iceberg's transform, and the column it is taken from."""

    field: str
    transform: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionValue:
    """One value of the partition field: its ordinal, its text as Iceberg parses it, and its directory."""

    ordinal: int
    text: str
    path: str


def check_supported(partition: LakePartition | None) -> None:
    """Refuse a transform this kernel cannot compute."""
    if (
        partition is not None
        and partition.transform not in (*_UNITS, "identity")
        and not _TRUNCATE.fullmatch(partition.transform)
    ):
        raise LakeLayoutUnsupported(
            f"The lake table is partitioned by {partition.transform}({partition.source}), which tiering cannot write."
        )


def ordinals(partition: LakePartition, keys: pa.Array) -> npt.NDArray[np.int64]:
    """The transform's result for each key. Keys are never NULL."""
    plain = key_numbers(keys)
    if partition.transform == "identity":
        return plain
    if found := _TRUNCATE.fullmatch(partition.transform):
        return plain - np.mod(plain, int(found[1]))
    unit = "D" if pa.types.is_date(keys.type) else "us"
    return plain.view(f"datetime64[{unit}]").astype(f"datetime64[{_UNITS[partition.transform]}]").astype(np.int64)


def key_numbers(keys: pa.Array) -> npt.NDArray[np.int64]:
    """Tier keys on their axis: the integer, the day or the microsecond."""
    width: np.dtype[Any] = np.dtype(np.int32 if keys.type.bit_width == 32 else np.int64)
    if len(keys) == 0:
        return np.zeros(0, dtype=np.int64)
    return np.frombuffer(keys.buffers()[1], dtype=width)[keys.offset : keys.offset + len(keys)].astype(np.int64)


def partition_value(partition: LakePartition, ordinal: int, key_type: pa.DataType) -> PartitionValue:
    """The texts of a value: Iceberg parses days and dates as dates, every other unit as a number."""
    unit = _UNITS.get(partition.transform) or (
        "D" if partition.transform == "identity" and pa.types.is_date(key_type) else None
    )
    if unit is None:
        return PartitionValue(ordinal=ordinal, text=str(ordinal), path=f"{_folder(partition)}={ordinal}")
    human = _render_unit(ordinal, unit)
    return PartitionValue(
        ordinal=ordinal, text=human if unit == "D" else str(ordinal), path=f"{_folder(partition)}={human}"
    )


def partition_of_key(partition: LakePartition | None, key: int, key_type: pa.DataType) -> PartitionValue | None:
    """The lake partition of a key given on its axis; None in a table without partitions."""
    if partition is None:
        return None
    plain = pa.array([key], pa.int32() if key_type.bit_width == 32 else pa.int64())
    return partition_value(partition, int(ordinals(partition, plain.cast(key_type))[0]), key_type)


def _folder(partition: LakePartition) -> str:
    """The field's name, without characters that have a meaning in URIs."""
    return re.sub(r"[^\w.-]", "_", partition.field)


def _render_unit(ordinal: int, unit: str) -> str:
    """2026, 2026-01, 2026-01-31 or 2026-01-31-23, with a sign outside the years 0 to 9999 as ISO 8601 requires."""
    moment = np.array(ordinal, dtype=np.int64).astype(f"datetime64[{unit}]")
    months = int(moment.astype("datetime64[M]").astype(np.int64))
    year, month = months // 12 + 1970, months % 12 + 1
    text = ("-" if year < 0 else "+" if year > 9999 else "") + f"{abs(year):04d}"
    if unit == "Y":
        return text
    text += f"-{month:02d}"
    if unit == "M":
        return text
    day = (
        int((moment.astype("datetime64[D]") - moment.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64))
        + 1
    )
    text += f"-{day:02d}"
    return text if unit == "D" else f"{text}-{ordinal % 24:02d}"
