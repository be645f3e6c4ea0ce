"""Parameter values of the extended protocol, as text and as constants of a statement."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import numpy as np

from thermocline.core.types import COLUMN_TYPES_BY_OID, ColumnType
from thermocline.errors import StatementRefused
from thermocline.gateway.sql.values import Constant, ConstantType
from thermocline.gateway.wire.row_encoding import render_date, render_timestamp

_TYPES: dict[int, ConstantType] = {oid: declared.constant for oid, declared in COLUMN_TYPES_BY_OID.items()}
_TYPES |= {0: "unknown", 705: "unknown"}


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
    declared = COLUMN_TYPES_BY_OID.get(oid)
    form = declared.lake.text_form if declared is not None else None
    if form == "plain":
        return value
    if form == "hex":
        return b"\\x" + value.hex().encode()
    if form == "boolean" and len(value) == 1:
        return b"t" if value == b"\x01" else b"f"
    if form == "uuid" and len(value) == 16:
        return str(uuid.UUID(bytes=value)).encode()
    if declared is None or declared.wire is None or form in ("boolean", "time") or len(value) != declared.size:
        raise StatementRefused(f"The gateway does not read binary parameters of type {oid}.")
    return _number_text(np.frombuffer(value, declared.wire)[0].item(), declared).encode()


def _number_text(number: int | float, declared: ColumnType) -> str:
    form, epoch = declared.lake.text_form, declared.lake.postgres_epoch
    if not epoch or not isinstance(number, int):
        return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(str(number), str(number))
    highest = (1 << declared.value_bits) - 1
    if number in (highest, -highest - 1):
        return "infinity" if number > 0 else "-infinity"
    if form == "date":
        return render_date(number + epoch)
    return render_timestamp(number + epoch, "+00" if form == "timestamptz" else "")


def parse_parameters(values: Sequence[bytes | None], oids: Sequence[int]) -> tuple[Constant, ...]:
    """Every value as a constant. Values of unsupported types are left to Postgres."""
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
