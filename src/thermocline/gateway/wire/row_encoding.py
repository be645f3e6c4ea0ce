"""Arrow batches as DataRow messages: each column becomes text by whole-column kernels, then the rows are joined.

The text is what Postgres itself prints under `datestyle = ISO`, UTC and `bytea_output = hex`, or at least what its
input functions read back as the same value.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thermocline.gateway.wire.binary_format import check_days, to_binary
from thermocline.gateway.wire.float_text import floats_to_text

_MICROS_PER_DAY = 86_400_000_000
_FIRST_PLAIN_DAY, _LAST_PLAIN_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31: between them Arrow's own text is Postgres' text."""


@dataclass(frozen=True, slots=True)
class ResultFormat:
    """How the client wants its rows: result formats as Bind gives them (none: all text; one: for all), or lines of
    COPY."""

    formats: tuple[int, ...] = ()
    is_copy: bool = False

    def is_binary(self, column: int) -> bool:
        return bool(self.formats) and bool(self.formats[0 if len(self.formats) == 1 else column])

    def all_binary(self, columns: int) -> bool:
        return columns > 0 and all(self.is_binary(at) for at in range(columns))


TEXT_FORMAT = ResultFormat()


def result_format_of(formats: tuple[int, ...]) -> ResultFormat:
    """The shape that a client's formats ask for; text is text however it is said."""
    return ResultFormat(formats) if any(formats) else TEXT_FORMAT


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """Rows as DataRow messages (or one CopyData message), on end; `offsets` says where each begins, with the end as
    last entry."""

    data: memoryview
    offsets: np.ndarray

    @property
    def row_count(self) -> int:
        return len(self.offsets) - 1

    def piece(self, first: int, count: int) -> memoryview:
        """The messages of `count` rows from row `first` on."""
        last = min(first + count, self.row_count)
        return self.data[int(self.offsets[first]) : int(self.offsets[last])]


def encode_rows(batch: pa.RecordBatch, shape: ResultFormat = TEXT_FORMAT, oids: Sequence[int] = ()) -> EncodedRows:
    """The batch as DataRow messages; the columns' Postgres types are needed for binary ones only."""
    count = batch.num_rows
    if shape.is_copy:
        return copy_message(bytes(encode_copy(batch)), count)
    if batch.num_columns == 0:
        row = b"D" + struct.pack(">ih", 6, 0)
        return EncodedRows(memoryview(row * count), np.arange(count + 1, dtype=np.int64) * len(row))
    pieces: list[pa.Array] = []
    for at, column in enumerate(batch.columns):
        body = to_binary(column, oids[at]) if shape.is_binary(at) else to_text(column).cast(pa.large_binary())
        lengths = pc.binary_length(body)
        if body.null_count:
            body, lengths = pc.fill_null(body, b""), pc.fill_null(lengths, -1)
        pieces += [_fixed(lengths.to_numpy(zero_copy_only=False).astype(">i4").tobytes(), count, 4), body]
    bodies = pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.large_binary()))
    sizes = pc.binary_length(bodies).to_numpy(zero_copy_only=False).astype(np.int32)
    head = np.empty((count, 7), np.uint8)
    head[:, 0] = ord("D")
    head[:, 1:5] = (sizes + 6).astype(">i4").view(np.uint8).reshape(count, 4)
    head[:, 5:7] = np.frombuffer(struct.pack(">h", batch.num_columns), np.uint8)
    whole = pc.binary_join_element_wise(_fixed(head.tobytes(), count, 7), bodies, pa.scalar(b"", pa.large_binary()))
    _, starts, data = whole.buffers()
    offsets = np.frombuffer(starts, np.int64)[whole.offset : whole.offset + count + 1]
    base = int(offsets[0])
    return EncodedRows(memoryview(data)[base : int(offsets[-1])], offsets - base)


COPY_HEAD_BYTES = 5
"""What stands before the lines in a CopyData message."""


def copy_message(lines: bytes, count: int) -> EncodedRows:
    """Lines of COPY as one message; it is sent whole or not at all."""
    data = b"d" + struct.pack(">i", len(lines) + 4) + lines
    offsets = np.zeros(count + 1, np.int64)
    offsets[-1] = len(data)
    return EncodedRows(memoryview(data), offsets)


_COPY_ESCAPES = (
    ("\\", "\\\\"),
    ("\t", "\\t"),
    ("\n", "\\n"),
    ("\r", "\\r"),
    ("\b", "\\b"),
    ("\f", "\\f"),
    ("\v", "\\v"),
)


def copy_line(values: Sequence[bytes | None]) -> bytes:
    """One row as a line of COPY's text format."""
    return b"\t".join(rb"\N" if value is None else _escaped(value) for value in values) + b"\n"


def _escaped(value: bytes) -> bytes:
    for raw, escaped in _COPY_ESCAPES:
        value = value.replace(raw.encode(), escaped.encode())
    return value


def encode_copy(batch: pa.RecordBatch) -> memoryview:
    """The batch as lines of COPY's text format."""
    columns = [pc.fill_null(_copy_escaped(column), rb"\N") for column in batch.columns]
    tail = pa.array([b"\n"], pa.large_binary())
    joined = (
        pc.binary_join_element_wise(*columns, pa.scalar(b"\t", pa.large_binary())) if len(columns) > 1 else columns[0]
    )
    lines = pc.binary_join_element_wise(joined, tail[0], pa.scalar(b"", pa.large_binary()))
    _, starts, data = lines.buffers()
    offsets = np.frombuffer(starts, np.int64)[lines.offset : lines.offset + batch.num_rows + 1]
    return memoryview(data)[int(offsets[0]) : int(offsets[-1])]


def _copy_escaped(column: pa.Array) -> pa.Array:
    text = to_text(column)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or _is_bytes(column.type):
        for raw, escaped in _COPY_ESCAPES:
            text = pc.replace_substring(text, raw, escaped)
    return text.cast(pa.large_binary())


def _fixed(data: bytes, count: int, width: int) -> pa.Array:
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int64)
    return pa.Array.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def to_text(column: pa.Array) -> pa.Array:
    """One column in Postgres' text form, nulls kept."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column.cast(pa.large_string())
    if pa.types.is_boolean(kind):
        return pc.if_else(column, "t", "f").cast(pa.large_string())
    if pa.types.is_floating(kind):
        return floats_to_text(column)
    if pa.types.is_decimal(kind):
        return _decimals(column)
    if pa.types.is_date32(kind):
        return _dates(column)
    if pa.types.is_timestamp(kind):
        return _timestamps(column)
    if pa.types.is_time64(kind):
        return _times(column)
    if _is_bytes(kind):
        return _hex(column)
    if pa.types.is_integer(kind) or pa.types.is_null(kind):
        return column.cast(pa.large_string())
    raise TypeError(f"no Postgres text for Arrow type {kind}")


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _decimals(column: pa.Array) -> pa.Array:
    text = column.cast(pa.large_string())
    if not pc.any(pc.match_substring(text, "E")).as_py():
        return text
    return pa.array([None if value is None else format(value, "f") for value in column.to_pylist()], pa.large_string())


def _trimmed(text: pa.Array) -> pa.Array:
    return pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), ".")


def _times(column: pa.Array) -> pa.Array:
    micros = column.cast(pa.time64("us")).cast(pa.int64())
    if not _all_within(micros, 0, _MICROS_PER_DAY):
        raise ValueError("a time of day beyond 24:00")
    if _all_within(micros, 0, _MICROS_PER_DAY - 1):
        return _trimmed(column.cast(pa.time64("us")).cast(pa.large_string()))
    # Arrow prints an error text for the end of a day.
    ends = pc.fill_null(pc.equal(micros, _MICROS_PER_DAY), False)
    others = _times(pc.if_else(ends, pa.scalar(0, pa.int64()), micros).cast(pa.time64("us")))
    return pc.if_else(ends, pa.scalar("24:00:00", pa.large_string()), others)


def _dates(column: pa.Array) -> pa.Array:
    days = column.cast(pa.int32())
    if _all_within(days, _FIRST_PLAIN_DAY, _LAST_PLAIN_DAY):
        return column.cast(pa.large_string())
    check_days(days)
    return pa.array([None if day is None else render_date(day) for day in days.to_pylist()], pa.large_string())


def _timestamps(column: pa.Array) -> pa.Array:
    zone = "+00" if column.type.tz is not None else ""
    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    if not _all_within(micros, _FIRST_PLAIN_DAY * _MICROS_PER_DAY, (_LAST_PLAIN_DAY + 1) * _MICROS_PER_DAY - 1):
        check_days(micros, _MICROS_PER_DAY)
        rendered = [None if micro is None else render_timestamp(micro, zone) for micro in micros.to_pylist()]
        return pa.array(rendered, pa.large_string())
    if _are_whole_seconds(micros):
        text = micros.cast(pa.timestamp("us")).cast(pa.timestamp("s")).cast(pa.large_string())
    else:
        text = _trimmed(micros.cast(pa.timestamp("us")).cast(pa.large_string()))
    return (
        pc.binary_join_element_wise(text, pa.scalar(zone, pa.large_string()), pa.scalar("", pa.large_string()))
        if zone
        else text
    )


def _are_whole_seconds(micros: pa.Array) -> bool:
    """Whether no value has a fraction; what stands behind nulls only makes the answer slower, never wrong."""
    numbers = np.frombuffer(micros.buffers()[1], np.int64)[micros.offset : micros.offset + len(micros)]
    return bool(micros.null_count == 0 and not (numbers % 1_000_000).any())


def _all_within(numbers: pa.Array, low: int, high: int) -> bool:
    ends = pc.min_max(numbers).as_py()
    return ends["min"] is None or (ends["min"] >= low and ends["max"] <= high)


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Year (astronomical), month and day of a day number of the proleptic Gregorian calendar, 0 being 1970-01-01."""
    shifted = days + 719_468
    era, day_of_era = divmod(shifted, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_index = (5 * day_of_year + 2) // 153
    month = month_index + 3 if month_index < 10 else month_index - 9
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * month_index + 2) // 5 + 1


def render_date(days: int) -> str:
    """A date of any year, as Postgres prints it."""
    year, month, day = civil_from_days(days)
    return f"{year:04d}-{month:02d}-{day:02d}" if year > 0 else f"{1 - year:04d}-{month:02d}-{day:02d} BC"


def render_timestamp(micros: int, zone: str) -> str:
    """A timestamp of any year, as Postgres prints it."""
    days, rest = divmod(micros, _MICROS_PER_DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    date, _, era = render_date(days).partition(" ")
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    tail = f".{fraction:06d}".rstrip("0") if fraction else ""
    return f"{date} {clock}{tail}{zone}" + (f" {era}" if era else "")


_HEX = np.frombuffer(b"".join(f"{byte:02x}".encode() for byte in range(256)), np.uint16)


def _hex(column: pa.Array) -> pa.Array:
    raw = pc.fill_null(column.cast(pa.large_binary()), b"")
    count = len(raw)
    _, starts, data = raw.buffers()
    offsets = np.frombuffer(starts, np.int64)[raw.offset : raw.offset + count + 1]
    content = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data is not None else np.empty(0, np.uint8)
    digits = pa.py_buffer(_HEX[content].tobytes())
    spread = pa.py_buffer(((offsets - offsets[0]) * 2).astype(np.int64).tobytes())
    text = pa.LargeStringArray.from_buffers(count, spread, digits)
    prefixed = pc.binary_join_element_wise(pa.scalar("\\x", pa.large_string()), text, pa.scalar("", pa.large_string()))
    return pc.if_else(column.is_valid(), prefixed, pa.scalar(None, pa.large_string()))
