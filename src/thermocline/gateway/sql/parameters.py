"""Parameter values of the extended protocol, as text and as constants of a statement."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence

from thermocline.errors import StatementRefused
from thermocline.gateway.sql.values import Constant, ConstantType
from thermocline.gateway.wire.row_encoding import render_date, render_timestamp

_TYPES: dict[int, ConstantType] = {
    16: "boolean",
    20: "int",
    21: "int",
    23: "int",
    700: "float",
    701: "double",
    1700: "decimal",
    25: "text",
    1043: "text",
    1082: "date",
    1083: "time",
    1114: "timestamp",
    1184: "timestamptz",
    2950: "uuid",
    17: "binary",
    0: "unknown",
    705: "unknown",
}
_BINARY = {21: ">h", 23: ">i", 20: ">q", 700: ">f", 701: ">d", 1082: ">i", 1114: ">q", 1184: ">q"}
_SINCE_2000 = {1082: 10_957, 1114: 946_684_800_000_000, 1184: 946_684_800_000_000}
"""What Postgres' epoch is ahead of 1970: days for dates, microseconds for timestamps."""


def decode_parameters(
    values: Sequence[bytes | None], formats: Sequence[int], oids: Sequence[int]
) -> tuple[bytes | None, ...]:
    """Every value in text form."""
    texts: list[bytes | None] = []
    for at, value in enumerate(values):
        binary = formats[0 if len(formats) == 1 else at] if formats else 0
        oid = oids[at] if at < len(oids) else 0
        texts.append(value if value is None or not binary else _from_binary(value, oid))
    return tuple(texts)


def _from_binary(value: bytes, oid: int) -> bytes:
    if oid in (25, 1043):
        return value
    if oid == 17:
        return b"\\x" + value.hex().encode()
    if oid == 16 and len(value) == 1:
        return b"t" if value == b"\x01" else b"f"
    if oid == 2950 and len(value) == 16:
        return str(uuid.UUID(bytes=value)).encode()
    if oid not in _BINARY or len(value) != struct.calcsize(_BINARY[oid]):
        raise StatementRefused(f"The gateway does not read binary parameters of type {oid}.")
    return _number_text(struct.unpack(_BINARY[oid], value)[0], oid).encode()


def _number_text(number: int | float, oid: int) -> str:
    if oid not in _SINCE_2000 or not isinstance(number, int):
        return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(str(number), str(number))
    bits = 32 if oid == 1082 else 64
    if number in (2 ** (bits - 1) - 1, -(2 ** (bits - 1))):
        return "infinity" if number > 0 else "-infinity"
    if oid == 1082:
        return render_date(number + _SINCE_2000[oid])
    return render_timestamp(number + _SINCE_2000[oid], "+00" if oid == 1184 else "")


def parse_parameters(values: Sequence[bytes | None], oids: Sequence[int]) -> tuple[Constant, ...]:
    """Every value as a constant; a type the gateway does not know is left to Postgres."""
    constants: list[Constant] = []
    for at, value in enumerate(values):
        kind = _TYPES.get(oids[at] if at < len(oids) else 0)
        if kind is None:
            raise StatementRefused(f"The gateway does not read parameters of type {oids[at]}.")
        try:
            constants.append(Constant(None if value is None else value.decode("utf-8"), kind))
        except UnicodeDecodeError as bad:
            raise StatementRefused("A parameter is not UTF-8 text.") from bad
    return tuple(constants)
