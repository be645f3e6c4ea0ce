"""Plan a scan: which files of a snapshot can match a condition.

A file is skipped only when its column bounds prove that none of its rows satisfies one of the conjuncts. Integer-like
columns are compared as whole arrays, so ten thousand files take well under a millisecond; other columns only for the
remaining files. Floats are never compared, because their bounds exclude NaN.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

import numpy as np
import numpy.typing as npt

from thermocline.core.column_bounds import decode_bound
from thermocline.core.types import LAKE_TYPES, POSTGRES_TYPES, PrimitiveType
from thermocline.lake.read.table_metadata import LakeField, LakeTable, SnapshotFile, SnapshotFiles
from thermocline.runtime.memory.bounded_cache import BoundedCache

Op = Literal["=", "<", "<=", ">", ">=", "is null", "is not null"]
BoundValue = int | Decimal | bytes
Mask = npt.NDArray[np.bool_]

_INT_KINDS = frozenset(
    kind for kind in POSTGRES_TYPES if LAKE_TYPES[kind].is_integral or LAKE_TYPES[kind].storage == "boolean"
)
_BYTES_KINDS = frozenset(kind for kind in POSTGRES_TYPES if LAKE_TYPES[kind].is_bytes)
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A conjunct by which files can be skipped: `column op any of values`.

    Values are in the column's own terms: integers, dates (days), times and timestamps (microseconds) as int, decimals
    as Decimal, text (UTF-8), uuid and bytea as bytes.
    """

    field: LakeField
    op: Op
    values: tuple[BoundValue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """The files to read, the deletes to apply, and what was skipped."""

    table: LakeTable
    snapshot_id: int
    data: tuple[SnapshotFile, ...]
    deletes: tuple[SnapshotFile, ...]
    files_skipped: int
    bytes_skipped: int = 0

    @property
    def row_count(self) -> int:
        """Rows of the files to read, deletes not subtracted."""
        return sum(file.record_count for file in self.data)


def plan_scan(table: LakeTable, snapshot_id: int, bounds: tuple[Bound, ...]) -> ScanPlan:
    """The files that can hold a row satisfying every bound."""
    files = table.files(snapshot_id)
    keep = np.ones(len(files.data), dtype=bool)
    for bound in bounds:
        if bound.field.kind in _INT_KINDS:
            keep &= _may_match_ints(files, bound)
    left = [files.data[at] for at in np.flatnonzero(keep)]
    rest = [bound for bound in bounds if bound.field.kind not in _INT_KINDS]
    data = tuple(file for file in left if all(_may_match(file, bound) for bound in rest))
    return ScanPlan(
        table=table,
        snapshot_id=snapshot_id,
        data=data,
        deletes=_applicable(files.deletes, data),
        files_skipped=len(files.data) - len(data),
        bytes_skipped=files.data_bytes - sum(file.size_bytes for file in data),
    )


def is_certain(data: Sequence[SnapshotFile], bound: Bound) -> bool:
    """Whether the files' bounds prove that every row satisfies this conjunct, so that rows need not be tested."""
    field_id = bound.field.field_id
    if bound.field.kind not in _INT_KINDS or any(file.null_counts.get(field_id) != 0 for file in data):
        return False
    if bound.op == "is not null":
        return True
    if len(bound.values) != 1 or not isinstance(value := bound.values[0], int):
        return False
    kind = PrimitiveType(kind=bound.field.kind)
    # A file without a bound counts as unbounded, so nothing is certain of it.
    highest = max((_int(kind, file.upper.get(field_id), _HIGHEST) for file in data), default=_LOWEST)
    lowest = min((_int(kind, file.lower.get(field_id), _LOWEST) for file in data), default=_HIGHEST)
    match bound.op:
        case "<":
            return highest < value
        case "<=":
            return highest <= value < _HIGHEST
        case ">":
            return lowest > value
        case ">=":
            return lowest >= value > _LOWEST
    return False


def thin_scan(plan: ScanPlan, rows: int, offset: float) -> ScanPlan:
    """Every n-th file of a scan, starting at `offset` (0 to 1) of the first n: at least this many rows, from the whole
    table."""
    step = min(plan.row_count // max(1, rows), len(plan.data) // _FEWEST_SAMPLED_FILES)
    if step < 2:
        return plan
    data = plan.data[int(offset * step) :: step]
    left = len(plan.data) - len(data)
    dropped = sum(file.size_bytes for file in plan.data) - sum(file.size_bytes for file in data)
    return replace(
        plan,
        data=data,
        deletes=_applicable(plan.deletes, data),
        files_skipped=plan.files_skipped + left,
        bytes_skipped=plan.bytes_skipped + dropped,
    )


_FEWEST_SAMPLED_FILES = 50


_PATH_FIELD_ID = 2_147_483_546


def _applicable(deletes: tuple[SnapshotFile, ...], data: tuple[SnapshotFile, ...]) -> tuple[SnapshotFile, ...]:
    """The delete files that can delete a row of these data files. The join makes the result exact."""
    if not deletes or not data:
        return ()
    oldest = min(file.sequence_number for file in data)
    paths = sorted(file.path.encode() for file in data)
    partitions = {file.partition for file in data}
    return tuple(delete for delete in deletes if _may_apply(delete, oldest, paths, partitions))


def may_apply(delete: SnapshotFile, data: tuple[SnapshotFile, ...]) -> bool:
    """Whether a delete file can delete a row of these data files."""
    return bool(_applicable((delete,), data))


def _may_apply(delete: SnapshotFile, oldest: int, paths: list[bytes], partitions: set[tuple[object, ...]]) -> bool:
    """The sequence rule (strict for equality deletes), the partition, and for position deletes the paths it names."""
    if delete.equality_ids:
        return oldest < delete.sequence_number and (not delete.partition or delete.partition in partitions)
    if oldest > delete.sequence_number:
        return False
    lowest, highest = delete.lower.get(_PATH_FIELD_ID, b""), delete.upper.get(_PATH_FIELD_ID)
    at = bisect_left(paths, lowest)
    return at < len(paths) and (highest is None or paths[at] <= highest)


@dataclass(frozen=True, slots=True, eq=False)
class _Ends:
    """Bounds of one integer-like column over all files of a snapshot; open ends where a file has no bound."""

    lower: npt.NDArray[np.int64]
    upper: npt.NDArray[np.int64]
    all_null: Mask
    no_null: Mask


_ENDS: BoundedCache[tuple[SnapshotFiles, int, PrimitiveType], _Ends] = BoundedCache(
    max_bytes=64 << 20, keeps_large=True
)
_ENDS_BYTES, _FILE_ENDS_BYTES = 500, 18


def _ends(files: SnapshotFiles, field_id: int, kind: PrimitiveType) -> _Ends:
    known = _ENDS.read((files, field_id, kind))
    if known is None:
        known = _read_ends(files, field_id, kind)
        _ENDS.put((files, field_id, kind), known, _ENDS_BYTES + _FILE_ENDS_BYTES * len(files.data))
    return known


def _read_ends(files: SnapshotFiles, field_id: int, kind: PrimitiveType) -> _Ends:
    return _Ends(
        np.array([_int(kind, file.lower.get(field_id), _LOWEST) for file in files.data], dtype=np.int64),
        np.array([_int(kind, file.upper.get(field_id), _HIGHEST) for file in files.data], dtype=np.int64),
        np.array([_is_all_null(file, field_id) for file in files.data], dtype=bool),
        np.array([file.null_counts.get(field_id) == 0 for file in files.data], dtype=bool),
    )


def _int(kind: PrimitiveType, encoded: bytes | None, otherwise: int) -> int:
    """A bound, or the end of the axis where there is none or it has another type, such as days of a column that is a
    timestamp now."""
    found = decode_bound(kind, encoded) if encoded is not None else None
    return found if isinstance(found, int) else otherwise


def _is_all_null(file: SnapshotFile, field_id: int) -> bool:
    return file.null_counts.get(field_id) == file.record_count


def _may_match_ints(files: SnapshotFiles, bound: Bound) -> Mask:
    ends = _ends(files, bound.field.field_id, PrimitiveType(kind=bound.field.kind))
    match bound.op:
        case "is null":
            return ~ends.no_null
        case "is not null":
            return ~ends.all_null
    matched: Mask = np.zeros(len(files.data), dtype=bool)
    for value in bound.values:
        matched |= _may_match_int(ends, bound.op, int(value) if not isinstance(value, bytes) else 0)
    return matched & ~ends.all_null


def _may_match_int(ends: _Ends, op: Op, value: int) -> Mask:
    match op:
        case "=":
            return (ends.lower <= value) & (ends.upper >= value)
        case "<":
            return ends.lower < value
        case "<=":
            return ends.lower <= value
        case ">":
            return ends.upper > value
        case ">=":
            return ends.upper >= value
    return np.ones(len(ends.lower), dtype=bool)


def _may_match(file: SnapshotFile, bound: Bound) -> bool:
    field_id = bound.field.field_id
    if bound.op == "is null":
        return file.null_counts.get(field_id) != 0
    if _is_all_null(file, field_id):
        return False
    if bound.op == "is not null" or bound.field.kind not in _BYTES_KINDS | {"decimal"}:
        return True
    lower, upper = _decoded(file.lower.get(field_id), bound.field), _decoded(file.upper.get(field_id), bound.field)
    return any(_between(bound.op, value, lower, upper) for value in bound.values)


def _decoded(encoded: bytes | None, field: LakeField) -> BoundValue | None:
    if encoded is None or field.kind != "decimal":
        return encoded
    # Built from text: arithmetic on Decimal would round to 28 digits.
    return Decimal(f"{int.from_bytes(encoded, 'big', signed=True)}E-{field.scale}")


def _between(op: Op, value: BoundValue, lower: BoundValue | None, upper: BoundValue | None) -> bool:
    at_least = lower is None or _not_above(lower, value)
    at_most = upper is None or _not_above(value, upper)
    match op:
        case "=":
            return at_least and at_most
        case "<":
            return lower is None or not _not_above(value, lower)
        case "<=":
            return at_least
        case ">":
            return upper is None or not _not_above(upper, value)
        case _:
            return at_most


def _not_above(left: BoundValue, right: BoundValue) -> bool:
    if isinstance(left, bytes) and isinstance(right, bytes):
        return left <= right
    if isinstance(left, int | Decimal) and isinstance(right, int | Decimal):
        return left <= right
    return True
