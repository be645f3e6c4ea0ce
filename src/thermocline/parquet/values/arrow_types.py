"""Arrow arrays from Postgres brought into the types Iceberg's Parquet expects, or refused.

The driver adds its epoch to dates and timestamps without looking, so infinity and the last years of a timestamp wrap
round into the far past. No real Postgres value is older than 4714 BC, so whatever arrives from before that day has
wrapped: it is refused here, by name and value.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import time
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thermocline.core.columns import LakeColumn
from thermocline.core.types import LAKE_TYPES, POSTGRES_TYPES, LakeType, PrimitiveType, lake_type_named, parse_lake_type
from thermocline.errors import UnrepresentableValue

_MAX_WHOLE_DIGITS = 18
NOT_A_NUMBER = -(2**63)
"""NaN among decimals that are transferred as integers; no decimal of eighteen digits has this value."""


def build_arrow(spec: tuple[str, ...], parameters: tuple[int, ...] = ()) -> pa.DataType:
    """The Arrow type that a declaration names: pyarrow's factory, called with its arguments and the parameters."""
    return getattr(pa, spec[0])(*spec[1:], *parameters)


def arrow_of_primitive(found: PrimitiveType) -> pa.DataType:
    """The Arrow type that Parquet writes as this primitive type."""
    return build_arrow(found.declared.arrow, found.parameters)


@lru_cache(maxsize=1024)
def arrow_type(lake_type: str) -> pa.DataType:
    """The Arrow type that Parquet writes as this Iceberg type."""
    if (found := parse_lake_type(lake_type)) is None:
        raise KeyError(lake_type)
    return arrow_of_primitive(found)


_LAKE_TYPES = {build_arrow(LAKE_TYPES[name].arrow): name for name in POSTGRES_TYPES if not LAKE_TYPES[name].parameters}


def lake_type_of_arrow(kind: pa.DataType) -> str:
    """Iceberg's type of a column as a lake file has it."""
    if pa.types.is_decimal(kind):
        return str(PrimitiveType(kind="decimal", precision=kind.precision, scale=kind.scale))
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16:
        return "uuid"
    return _LAKE_TYPES.get(kind, "string")


def travels_whole(lake_type: str) -> bool:
    """Whether the type is a decimal so small that its values travel as 64-bit whole numbers, their point left out."""
    found = parse_lake_type(lake_type)
    return found is not None and found.kind == "decimal" and found.precision <= _MAX_WHOLE_DIGITS


def missing_scalar(text: str | None, lake_type: str) -> pa.Scalar:
    """What rows of a file without the column read as, from Postgres' text form."""
    kind = arrow_type(lake_type)
    if text is None:
        return pa.scalar(None, kind)
    match lake_type_named(lake_type).text_form:
        case "boolean":
            return pa.scalar(text in ("t", "true"))
        case "float":
            return pa.scalar(float(text), kind)
        case "hex":
            return pa.scalar(bytes.fromhex(text[2:]), kind)
        case "uuid":
            return pa.scalar(bytes.fromhex(text.replace("-", "")), kind)
        case "time":
            return pa.scalar(time.fromisoformat(text), kind)
        case _:
            return pa.scalar(text).cast(kind)


def arrow_schema(columns: Sequence[LakeColumn]) -> pa.Schema:
    """The schema of a lake file, with Iceberg's field ids."""
    return pa.schema(
        [
            pa.field(
                column.name,
                arrow_type(column.lake_type),
                not column.required,
                metadata={"PARQUET:field_id": str(column.field_id)},
            )
            for column in columns
        ]
    )


def lake_array(array: pa.Array, column: LakeColumn) -> pa.Array:
    """One column of a batch in its lake type; refuses a value that has none."""
    wanted = arrow_type(column.lake_type)
    if isinstance(array, pa.ExtensionArray) and array.type != wanted:
        array = array.storage
    if pa.types.is_decimal(wanted):
        return (
            _small_decimals(array, column, wanted)
            if travels_whole(column.lake_type)
            else _decimals(array, column, wanted)
        )
    if column.lake_type == "uuid" and array.type != wanted:
        return pa.ExtensionArray.from_storage(wanted, array.cast(wanted.storage_type))
    _check_values(array, column)
    return array if array.type == wanted else array.cast(wanted)


def _small_decimals(array: pa.Array, column: LakeColumn, wanted: pa.DataType) -> pa.Array:
    if pc.min(array).as_py() == NOT_A_NUMBER:
        raise _refusal(column, "NaN")
    valid, data = array.buffers()
    whole = (
        np.frombuffer(data, dtype=np.int64, count=array.offset + len(array))
        if data is not None
        else np.zeros(0, dtype=np.int64)
    )
    halves = np.empty((len(whole), 2), dtype=np.int64)
    halves[:, 0] = whole
    halves[:, 1] = whole >> 63
    return pa.Array.from_buffers(wanted, len(array), [valid, pa.py_buffer(halves)], array.null_count, array.offset)


def _decimals(array: pa.Array, column: LakeColumn, wanted: pa.DataType) -> pa.Array:
    try:
        return array.cast(wanted)
    except pa.ArrowInvalid:
        odd = array.filter(pc.invert(pc.match_substring_regex(array, r"^-?\d+(\.\d+)?$")))
        raise _refusal(column, odd[0].as_py() if len(odd) else "a number too large for the column") from None


def _check_values(array: pa.Array, column: LakeColumn) -> None:
    declared = lake_type_named(column.lake_type)
    if (declared.lowest is None and declared.highest is None) or len(array) == array.null_count:
        return
    numbers = array.cast(pa.int32() if declared.storage == "int4" else pa.int64())
    ends = pc.min_max(numbers).as_py()
    if declared.highest is not None and ends["max"] > declared.highest:
        raise _refusal(column, declared.not_held[0])
    if declared.lowest is not None and ends["min"] < declared.lowest:
        raise _refusal(column, _wrapped(ends["min"], declared))


def _wrapped(number: int, declared: LakeType) -> str:
    """The value Postgres held before the driver's epoch was added: its ends are the infinities."""
    bits = 32 if declared.storage == "int4" else 64
    held = (number - declared.postgres_epoch + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
    if held in (2 ** (bits - 1) - 1, -(2 ** (bits - 1))):
        return declared.not_held[1 if held > 0 else 0]
    return f"a {'day' if declared.storage == 'int4' else 'moment'} later than the lake's last"


def _refusal(column: LakeColumn, value: str) -> UnrepresentableValue:
    return UnrepresentableValue(
        f"Column {column.name} ({column.pg_type}) holds {value}, which has no form in the lake ({column.lake_type}).",
        column=column.name,
        value=value,
    )
