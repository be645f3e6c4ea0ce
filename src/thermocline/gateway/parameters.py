"""Parameter values of the extended protocol, as text and as constants of a statement."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from thermocline.errors import StatementRefused
from thermocline.gateway.values import Constant, ConstantType

_TYPES: dict[int, ConstantType] = {
    16: "boolean", 20: "int", 21: "int", 23: "int", 700: "float", 701: "double", 1700: "decimal", 25: "text", 1043: "text",
    1082: "date", 1083: "time", 1114: "timestamp", 1184: "timestamptz", 2950: "uuid", 17: "binary", 0: "unknown", 705: "unknown",
}  # fmt: skip
_BINARY = {21: ">h", 23: ">i", 20: ">q", 700: ">f", 701: ">d"}


def texts_of(values: Sequence[bytes | None], formats: Sequence[int], oids: Sequence[int]) -> tuple[bytes | None, ...]:
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
    if oid == 16:
        return b"t" if value == b"\x01" else b"f"
    if oid not in _BINARY or len(value) != struct.calcsize(_BINARY[oid]):
        raise StatementRefused(f"The gateway does not read binary parameters of type {oid}.")
    return str(struct.unpack(_BINARY[oid], value)[0]).encode()


def constants_of(values: Sequence[bytes | None], oids: Sequence[int]) -> tuple[Constant, ...]:
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
