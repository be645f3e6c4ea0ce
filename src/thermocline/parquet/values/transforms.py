"""Iceberg's transforms on Arrow arrays, for sort fields."""

from __future__ import annotations

import re
import struct

import mmh3
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thermocline.errors import RewriteUnsupported

_WITH_NUMBER = re.compile(r"(bucket|truncate)\[(\d+)\]")
_UNITS = {"year": "Y", "month": "M", "day": "D", "hour": "h"}


def why_not_transform(transform: str) -> str | None:
    """Why rows cannot be sorted by a transform, or None."""
    if transform in ("identity", "void", *_UNITS) or _WITH_NUMBER.fullmatch(transform):
        return None
    return f"cannot sort by transform {transform}"


def apply_transform(array: pa.Array, transform: str) -> pa.Array:
    """The values by which a sort field orders rows."""
    if reason := why_not_transform(transform):
        raise RewriteUnsupported(f"The rewrite {reason}.")
    if pa.types.is_dictionary(array.type) and transform != "identity":
        array = array.cast(array.type.value_type)
    if transform == "identity":
        return array
    if transform == "void":
        return pa.nulls(len(array), pa.int32())
    if transform in _UNITS:
        return _truncate_time(array, _UNITS[transform])
    found = _WITH_NUMBER.fullmatch(transform)
    assert found
    return _bucket(array, int(found[2])) if found[1] == "bucket" else _truncate(array, int(found[2]))


def _truncate_time(array: pa.Array, unit: str) -> pa.Array:
    if not (pa.types.is_date(array.type) or pa.types.is_timestamp(array.type)):
        raise RewriteUnsupported(f"The rewrite cannot take the time of {array.type}.")
    scale = "D" if pa.types.is_date(array.type) else array.type.unit
    whole = array.view(pa.int32() if pa.types.is_date(array.type) else pa.int64())
    moments = (
        np.asarray(pc.fill_null(whole, 0).to_numpy(zero_copy_only=False)).astype(np.int64).view(f"datetime64[{scale}]")
    )
    values = moments.astype(f"datetime64[{unit}]").astype(np.int64)
    return pa.array(values, mask=array.is_null().to_numpy(zero_copy_only=False))


def _truncate(array: pa.Array, width: int) -> pa.Array:
    if pa.types.is_string(array.type):
        return pc.utf8_slice_codeunits(array, 0, width)
    if pa.types.is_binary(array.type):
        return pc.binary_slice(array, 0, width)
    if pa.types.is_decimal(array.type):
        step = pa.scalar(width).cast(pa.decimal128(38, 0))
        whole = array.cast(pa.decimal128(38, array.type.scale)).view(pa.decimal128(38, 0))
        return pa.array(
            [None if v is None else int(v) - int(v) % int(step.as_py()) for v in whole.to_pylist()],
            pa.decimal128(38, 0),
        )
    if not pa.types.is_integer(array.type):
        raise RewriteUnsupported(f"The rewrite cannot truncate {array.type}.")
    values = np.asarray(pc.fill_null(array, 0).to_numpy(zero_copy_only=False))
    # In the column's own width, so that the lowest values overflow as in Iceberg.
    return pa.array(values - values % values.dtype.type(width), mask=array.is_null().to_numpy(zero_copy_only=False))


def _bucket(array: pa.Array, count: int) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    coded = array.dictionary_encode()
    kind = array.type
    values = coded.dictionary
    if pa.types.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    nanos = pa.types.is_timestamp(kind) and kind.unit == "ns"
    hashes = [
        (mmh3.hash(_hashed_bytes(v // 1000 if nanos else v, scale)) & 0x7FFFFFFF) % count for v in values.to_pylist()
    ]
    return pa.array(hashes, pa.int32()).take(coded.indices)


def _hashed_bytes(value: object, scale: int) -> bytes:
    """The bytes of a value that Iceberg's bucket transform hashes."""
    match value:
        case bytes():
            return value
        case str():
            return value.encode()
        case int():
            return struct.pack("<q", value)
        case _:
            unscaled = int(value.scaleb(scale))  # type: ignore[attr-defined]
            return unscaled.to_bytes(
                (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1, "big", signed=True
            )
