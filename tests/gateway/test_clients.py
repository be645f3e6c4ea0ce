"""The clients people have: psycopg in binary, asyncpg, psql, the JDBC driver; over real sockets, against Postgres' own
answers."""

from __future__ import annotations

import asyncio
import shutil
import struct
import subprocess
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pyarrow as pa
import pytest
from psycopg import pq
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from tests.gateway.jdbc import java_command

from thermocline.gateway.lake_arm.postgres_evaluation import wait_for_result

TYPES: dict[str, tuple[str, Any, pa.DataType, list[Any]]] = {
    "id": ("bigint", LongType(), pa.int64(), [1, 2, 3, -(2**63)]),
    "i2": ("smallint", IntegerType(), pa.int32(), [-32768, None, 7, 0]),
    "i4": ("integer", IntegerType(), pa.int32(), [2**31 - 1, -1, None, 0]),
    "f4": ("real", FloatType(), pa.float32(), [0.5, float("inf"), None, -0.0]),
    "f8": ("double precision", DoubleType(), pa.float64(), [0.1, float("-inf"), None, 5e-324]),
    "n": (
        "numeric(12,3)",
        DecimalType(12, 3),
        pa.decimal128(12, 3),
        [Decimal("0.000"), Decimal("-1.500"), None, Decimal("99999.001")],
    ),
    "b": ("boolean", BooleanType(), pa.bool_(), [True, False, None, True]),
    "d": ("date", DateType(), pa.date32(), [date(1970, 1, 1), date(1, 1, 1), None, date(9999, 12, 31)]),
    "t": ("time", TimeType(), pa.time64("us"), [time(0), time(23, 59, 59, 999999), None, time(12)]),
    "ts": (
        "timestamp",
        TimestampType(),
        pa.timestamp("us"),
        [datetime(1969, 12, 31, 23), datetime(1, 1, 1), None, datetime(2026, 1, 1)],
    ),
    "tz": (
        "timestamptz",
        TimestamptzType(),
        pa.timestamp("us", "UTC"),
        [datetime(2026, 1, 1, tzinfo=UTC), None, datetime(1960, 1, 1, tzinfo=UTC), None],
    ),
    "u": ("uuid", UUIDType(), pa.uuid(), [UUID(int=1).bytes, None, UUID(int=2**128 - 1).bytes, None]),
    "y": ("bytea", BinaryType(), pa.binary(), [b"", b"\0\xff", None, b"x"]),
    "s": ("text", StringType(), pa.string(), ["", "ä\t\\€", None, "a\nb"]),
}
NUMERICS = (
    "0",
    "0.000",
    "1",
    "-1.5",
    "10000",
    "9999.9999",
    "1e20",
    "0.00000001",
    "123456789012345678901234567890.12345",
    "NaN",
)


@pytest.fixture(scope="module")
def wide(shared_site: Any) -> Any:
    """`public.wide` in the lake with a column of each type, and the same rows as a plain table `twin`."""
    shared_site.lake.create(
        "wide",
        Schema(*(NestedField(at, name, kind[1], required=False) for at, (name, kind) in enumerate(TYPES.items(), 1))),
    )
    shared_site.lake.foreign_table("wide", ", ".join(f"{name} {kind[0]}" for name, kind in TYPES.items()))
    shared_site.lake.append("wide", pa.table({name: pa.array(kind[3], kind[2]) for name, kind in TYPES.items()}))
    shared_site.conn.execute(
        "create table twin as select * from thermocline_lake.wide where _snapshot = %s", (_snapshot(shared_site),)
    )
    shared_site.conn.execute("alter table twin drop column _snapshot")
    return shared_site


def _snapshot(site: Any) -> int:
    return int(site.conn.execute("select s from thermocline.cutline").fetchone()[0])


def _raw(conn: psycopg.Connection[Any], sql: str, formats: int) -> list[list[bytes | None]]:
    result = conn.pgconn.exec_params(sql.encode(), [], result_format=formats)
    assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message
    return [[result.get_value(row, at) for at in range(result.nfields)] for row in range(result.ntuples)]


@pytest.fixture
def direct(wide: Any) -> Any:
    with psycopg.connect(wide.direct_dsn(), autocommit=True) as conn:
        yield conn


@pytest.mark.parametrize("form", [0, 1])
def test_every_type_arrives_with_postgres_own_bytes_in_text_and_in_binary(
    wide: Any, direct: psycopg.Connection[Any], form: int
) -> None:
    listed = ", ".join(TYPES)
    wide.conn.execute("set timezone = 'GMT'")
    expected = _raw(wide.conn, f"select {listed} from twin order by id", form)
    assert (
        _raw(direct, f"select {listed} from public.wide where _snapshot = {_snapshot(wide)} order by id", form)
        == expected
    )


@pytest.mark.parametrize("form", [0, 1])
def test_what_postgres_evaluates_arrives_in_the_format_asked_for(
    wide: Any, direct: psycopg.Connection[Any], form: int
) -> None:
    query = "select id, upper(s), n * 2, d + 1 from {} order by 1"
    expected = _raw(wide.conn, query.format("twin"), form)
    assert _raw(direct, query.format(f"public.wide where _snapshot = {_snapshot(wide)}"), form) == expected


@pytest.mark.parametrize("text", NUMERICS)
def test_numerics_have_postgres_own_binary_form(wide: Any, text: str) -> None:
    from thermocline.gateway.wire.binary_format import encode_numeric

    assert encode_numeric(Decimal(text)) == wide.conn.execute("select numeric_send(%s::numeric)", (text,)).fetchone()[0]


def test_copy_of_a_query_gives_the_lines_that_postgres_gives(wide: Any, direct: psycopg.Connection[Any]) -> None:
    listed = ", ".join(TYPES)
    with wide.conn.cursor().copy(f"copy (select {listed} from twin order by id) to stdout") as copy:
        expected = b"".join(bytes(piece) for piece in copy)
    for query in (
        "select {} from public.wide where _snapshot = {} order by id",
        "select {} from public.wide where _snapshot = {} order by id + 0.0",
    ):
        with direct.cursor().copy(f"copy ({query.format(listed, _snapshot(wide))}) to stdout") as copy:
            assert b"".join(bytes(piece) for piece in copy) == expected
    assert direct.execute("select count(*) from public.wide where _snapshot = null").fetchone() == (0,)


def test_a_statement_is_described_with_the_types_that_postgres_infers(
    wide: Any, direct: psycopg.Connection[Any]
) -> None:
    sql = b"select id, s, upper(s) from public.wide where _snapshot = $1 and tz < $2 and u = $3"
    direct.pgconn.send_prepare(b"one", sql)
    wait_for_result(direct)
    direct.pgconn.send_describe_prepared(b"one")
    described = wait_for_result(direct)
    assert [described.param_type(at) for at in range(described.nparams)] == [20, 1184, 2950]
    assert [described.ftype(at) for at in range(described.nfields)] == [20, 25, 25]


def _with_asyncpg(site: Any, work: Callable[[asyncpg.Connection], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        conn = await asyncpg.connect(
            host="127.0.0.1", port=site.gateway.port, user="postgres", password="correct horse", database="lake"
        )
        try:
            return await work(conn)
        finally:
            await conn.close()

    return asyncio.run(run())


def test_asyncpg_reads_every_type(wide: Any) -> None:
    listed = ", ".join(TYPES)

    async def work(conn: asyncpg.Connection) -> Any:
        found = await conn.fetch(
            f"select {listed} from public.wide where _snapshot = $1 and id = $2", _snapshot(wide), 1
        )
        nothing = await conn.fetch(
            "select id from public.wide where _snapshot = $1 and d > $2", _snapshot(wide), date(9999, 12, 31)
        )
        return tuple(found[0]), nothing

    row, nothing = _with_asyncpg(wide, work)
    assert row == wide.conn.execute(f"select {listed} from twin where id = 1").fetchone()
    assert nothing == []


def test_asyncpg_reads_in_pieces_by_a_cursor(wide: Any) -> None:
    async def work(conn: asyncpg.Connection) -> list[int]:
        async with conn.transaction():
            query = "select id from public.wide where _snapshot = $1 order by id"
            return [row["id"] async for row in conn.cursor(query, _snapshot(wide), prefetch=2)]

    assert _with_asyncpg(wide, work) == [-(2**63), 1, 2, 3]


def _psqls() -> list[str]:
    return [str(path) for path in {shutil.which("psql"), *Path("/usr/lib/postgresql").glob("*/bin/psql")} if path]


@pytest.mark.parametrize("psql", _psqls())
def test_psql_asks_and_copies(wide: Any, psql: str) -> None:
    def run(text: str) -> str:
        return subprocess.run(
            [psql, "-X", "-A", "-t", "-c", text, wide.direct_dsn()], check=True, capture_output=True, text=True
        ).stdout

    where = f"from public.wide where _snapshot = {_snapshot(wide)} order by id"
    assert run(f"select id, b {where} limit 2") == f"{-(2**63)}|t\n1|t\n"
    assert run(f"\\copy (select id, b {where} limit 2) to stdout") == f"{-(2**63)}\tt\n1\tt\n"


JDBC = """
import java.sql.*;
public class Ask {
    public static void main(String[] a) throws Exception {
        try (Connection c = DriverManager.getConnection(a[0], "postgres", "correct horse")) {
            c.setAutoCommit(false);
            for (int round = 0; round < 7; round++) {
                try (PreparedStatement q = c.prepareStatement(
                        "select id, i4, f8, n, d, tz, s, u from public.wide"
                        + " where _snapshot = ? and id > ? order by id")) {
                    q.setFetchSize(2);
                    q.setLong(1, Long.parseLong(a[1]));
                    q.setLong(2, 0);
                    StringBuilder line = new StringBuilder();
                    try (ResultSet r = q.executeQuery()) {
                        while (r.next()) {
                            line.append(r.getLong(1)).append(' ').append(r.getInt(2)).append(' ')
                                .append(r.getDouble(3)).append(' ')
                                .append(r.getBigDecimal(4)).append(' ').append(r.getString(5)).append(' ')
                                .append(r.getTimestamp(6) == null ? "null" : r.getTimestamp(6).toInstant()).append(' ')
                                .append(r.getString(8)).append(';');
                        }
                    }
                    System.out.println(line);
                }
            }
            c.commit();
        }
    }
}
"""


def test_the_jdbc_driver_reads_in_pieces_and_in_binary_after_some_rounds(wide: Any, tmp_path: Path) -> None:
    url = f"jdbc:postgresql://127.0.0.1:{wide.gateway.port}/lake?prepareThreshold=3"
    command = [*java_command(tmp_path, "Ask", JDBC), url, str(_snapshot(wide))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert lines[0].startswith(
        "1 2147483647 0.1 0.000 1970-01-01 2026-01-01T00:00:00Z 00000000-0000-0000-0000-000000000001;"
    )
    assert lines == [lines[0]] * 7


def test_a_binary_parameter_of_an_unknown_type_is_refused_by_its_number(
    wide: Any, direct: psycopg.Connection[Any]
) -> None:
    sql = f"select id from public.wide where _snapshot = {_snapshot(wide)} and s = $1".encode()
    result = direct.pgconn.exec_params(sql, [struct.pack(">i", 1)], param_types=[790], param_formats=[1])
    assert result.error_field(pq.DiagnosticField.SQLSTATE) == b"0A000"
    assert b"790" in (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"")
