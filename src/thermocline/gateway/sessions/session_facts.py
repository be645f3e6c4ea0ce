"""What a session tells of itself before a statement is judged: role, search path, settings, transaction."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from thermocline.gateway.sessions.table_lookup import Role
from thermocline.gateway.sql.query.constants import Given
from thermocline.gateway.sql.values import NotProvable, parse_array
from thermocline.gateway.wire.frames import Frame
from thermocline.gateway.wire.messages import encode, text

Engine = Literal["auto", "duckdb", "postgres"]

# Every name is qualified: a session's own search path must not decide what its rights are.
PROBE = (
    "select current_user::pg_catalog.text, pg_catalog.current_schemas(true)::pg_catalog.text,"
    " pg_catalog.current_setting('TimeZone'), pg_catalog.current_setting('DateStyle'), "
    "pg_catalog.current_setting('bytea_output'),"
    " pg_catalog.current_setting('extra_float_digits'), pg_catalog.current_setting('client_encoding'),"
    " pg_catalog.current_setting('standard_conforming_strings'), pg_catalog.current_setting('transaction_isolation'),"
    " pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text,"
    " pg_catalog.current_setting('thermocline.engine', true), pg_catalog.current_setting('statement_timeout'),"
    " pg_catalog.current_setting('server_encoding'), pg_catalog.current_setting('transform_null_equals'),"
    " pg_catalog.current_setting('array_nulls'), pg_catalog.current_setting('idle_session_timeout'),"
    " pg_catalog.current_setting('idle_in_transaction_session_timeout'),"
    " (select p.statement from pg_catalog.pg_prepared_statements p where p.name operator(pg_catalog.=) $1)"
)
"""Its parameter is the name of the prepared statement that is to be run."""
_UNITS = {"": 0.001, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_UTC = frozenset(
    {
        "utc",
        "gmt",
        "etc/utc",
        "etc/gmt",
        "uct",
        "zulu",
        "universal",
        "etc/universal",
        "etc/uct",
        "etc/zulu",
        "greenwich",
        "gmt0",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """A session as it is now."""

    role: Role
    utc: bool
    date_style: str
    bytea_output: str
    extra_float_digits: int
    client_encoding: str
    standard_strings: bool
    isolation: str
    has_written: bool
    engine: str
    timeout_seconds: float
    server_encoding: str = "UTF8"
    nulls_are_equal: bool = False
    array_nulls: bool = True
    idle_seconds: float = 0
    prepared_text: str | None = None

    @property
    def prints_plainly(self) -> bool:
        """Whether the gateway's own text of every type is the session's."""
        return (
            self.utc
            and self.date_style.startswith("ISO")
            and self.bytea_output == "hex"
            and self.extra_float_digits >= 1
        )

    def why_not_here(self) -> str | None:
        """A reason that holds for every statement of the session as it is."""
        if self.client_encoding != "UTF8" or self.server_encoding != "UTF8" or not self.standard_strings:
            return "the session's encoding or strings are not plain"
        if self.nulls_are_equal:
            return "the session compares with NULL in a way of its own"
        if not self.array_nulls:
            return "the session reads NULL in an array as text"
        if self.has_written:
            return "the transaction has written"
        if self.isolation == "serializable":
            return "the transaction is serializable"
        return None


def facts_of(row: Sequence[bytes | None]) -> SessionFacts:
    """The probe's answer."""
    values = [None if value is None else value.decode("utf-8", "replace") for value in row]
    said = [value or "" for value in values]
    schemas = tuple(name for name in parse_array(said[1]) if name is not None)
    return SessionFacts(
        role=Role(name=said[0], path=schemas),
        utc=said[2].lower() in _UTC,
        date_style=said[3],
        bytea_output=said[4],
        extra_float_digits=int(said[5] or 0),
        client_encoding=said[6],
        standard_strings=said[7] == "on",
        isolation=said[8],
        has_written=values[9] is not None,
        engine=said[10] or "auto",
        timeout_seconds=_seconds(said[11]),
        server_encoding=said[12],
        nulls_are_equal=said[13] == "on",
        array_nulls=said[14] == "on",
        idle_seconds=min((seconds for setting in said[15:17] if (seconds := _seconds(setting))), default=0.0),
        prepared_text=values[17],
    )


def _seconds(setting: str) -> float:
    """A duration as Postgres shows it: `0`, `500ms`, `2min`."""
    found = re.fullmatch(r"(\d+)(ms|s|min|h|d|)", setting)
    return int(found[1]) * _UNITS[found[2]] if found else 0.0


def values_of(frame: Frame) -> list[bytes | None]:
    """The values of a DataRow."""
    (count,) = struct.unpack_from(">H", frame.body)
    values: list[bytes | None] = []
    at = 2
    for _ in range(count):
        (length,) = struct.unpack_from(">i", frame.body, at)
        at += 4
        values.append(None if length < 0 else frame.body[at : at + length])
        at += max(0, length)
    return values


def oids_of(frame: Frame) -> tuple[int, ...]:
    """The types of a ParameterDescription."""
    (count,) = struct.unpack_from(">H", frame.body)
    return struct.unpack_from(f">{count}I", frame.body, 2)


def column_oids(frame: Frame) -> tuple[int, ...]:
    """The types of a RowDescription."""
    return tuple(oid for _, oid in _columns(frame))


def column_names(frame: Frame) -> tuple[str, ...]:
    """The names of a RowDescription."""
    return tuple(name.decode("utf-8", "replace") for name, _ in _columns(frame))


def _columns(frame: Frame) -> Iterator[tuple[bytes, int]]:
    (count,) = struct.unpack_from(">H", frame.body)
    at = 2
    for _ in range(count):
        end = frame.body.index(b"\0", at)
        yield frame.body[at:end], struct.unpack_from(">I", frame.body, end + 7)[0]
        at = end + 19


def parse(name: str, sql: str, oids: Sequence[int] = ()) -> bytes:
    return encode(b"P", text(name) + text(sql) + struct.pack(f">H{len(oids)}I", len(oids), *oids))


def describe_statement(name: str) -> bytes:
    return encode(b"D", b"S" + text(name))


def describe_portal(name: str) -> bytes:
    return encode(b"D", b"P" + text(name))


def close_statement(name: str) -> bytes:
    return encode(b"C", b"S" + text(name))


def close_portal(name: str) -> bytes:
    return encode(b"C", b"P" + text(name))


def bind(name: str, values: Sequence[bytes | None] = (), formats: Sequence[int] = ()) -> bytes:
    """A Bind of text values to a statement, on a portal of the same name: the unnamed one may hold rows for the client
    to fetch."""
    body = [text(name), text(name), struct.pack(">HH", 0, len(values))]
    for value in values:
        body.append(struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value)
    body.append(struct.pack(f">H{len(formats)}h", len(formats), *formats))
    return encode(b"B", b"".join(body))


def execute(name: str) -> bytes:
    return encode(b"E", text(name) + struct.pack(">i", 0))


def given_of(row: Sequence[bytes | None]) -> list[Given]:
    """Constants that Postgres computed: text and type in turn."""
    found: list[Given] = []
    for at in range(0, len(row), 2):
        kind = row[at + 1]
        if kind is None:
            raise NotProvable("a constant without a type")
        value = row[at]
        found.append(Given(None if value is None else value.decode(), int(kind)))
    return found


def notice(sentence: str) -> bytes:
    """A NOTICE of the gateway's own."""
    fields = [(b"S", "NOTICE"), (b"V", "NOTICE"), (b"C", "00000"), (b"M", sentence)]
    return encode(b"N", b"".join(key + text(value) for key, value in fields) + b"\0")
