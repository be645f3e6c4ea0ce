"""The gateway's pure parts: statements, constants, rows, logins."""

from __future__ import annotations

import asyncio
import socket
import struct
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import cast

import pyarrow as pa
import pytest
import scramp
from hypothesis import given
from hypothesis import strategies as st

from thermocline.errors import StatementRefused
from thermocline.gateway.lake_arm.postgres_evaluation import check_functions
from thermocline.gateway.sessions.query_interceptor import QueryInterceptor
from thermocline.gateway.sessions.relay_link import LinkClosed, RelayLink
from thermocline.gateway.sessions.statement_control import StatementControl
from thermocline.gateway.sessions.upstream import PostgresEndpoint, UpstreamConnection
from thermocline.gateway.sql.syntax.statements import parse_statement, split_statements
from thermocline.gateway.sql.values import Constant, Infinity, NotProvable, parse_array, parse_value
from thermocline.gateway.whole_query.whole_query_service import WholeQueryService
from thermocline.gateway.wire.binary_format import to_binary
from thermocline.gateway.wire.frames import ClientFrameReader, Frame, ServerFrameReader
from thermocline.gateway.wire.frontend_messages import SYNC
from thermocline.gateway.wire.row_encoding import encode_copy, encode_rows, render_date, render_timestamp, to_text
from thermocline.gateway.wire.scram import ScramExchange, WrongCredentials, make_verifier

pytestmark = pytest.mark.unit

SENT_BY_POSTGRES_FDW = (
    "SET search_path = pg_catalog",
    "SET timezone = 'UTC'",
    "SET timezone = 'GMT'",
    "SET datestyle = ISO",
    "SET intervalstyle = postgres",
    "SET extra_float_digits = 3",
    "SET transaction_read_only = on",
    "START TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "START TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "START TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
    "SAVEPOINT s2",
    "RELEASE SAVEPOINT s2",
    "ROLLBACK TO SAVEPOINT s2",
    "COMMIT TRANSACTION",
    "ABORT TRANSACTION",
    "DECLARE c1 CURSOR FOR\nSELECT id FROM public.events WHERE ((_snapshot = $1::bigint))",
    "FETCH 100 FROM c1",
    "MOVE BACKWARD ALL IN c1",
    "CLOSE c1",
    "DEALLOCATE ALL",
    "DISCARD ALL",
    "EXPLAIN SELECT id FROM public.events",
    "SELECT pg_catalog.pg_relation_size('public.events'::pg_catalog.regclass) / 8192",
    "SELECT reltuples, relkind FROM pg_catalog.pg_class WHERE oid = 'public.events'::pg_catalog.regclass",
    "SELECT relpages, reltuples, relkind FROM pg_catalog.pg_class WHERE oid = 'public.\"E v\"'::pg_catalog.regclass",
)

NEVER_RUN = (
    "insert into public.events values (1)",
    "update public.events set id = 1",
    "delete from public.events",
    "drop table public.events",
    "truncate public.events",
    "copy public.events to stdout",
    "create table x ()",
    "prepare p as select 1",
    "do $$ begin end $$",
    "call f()",
    "listen x",
    "vacuum",
    "table public.events",
    "with x as (select 1) select * from x",
    "grant all on public.events to public",
)


@pytest.mark.parametrize("text", SENT_BY_POSTGRES_FDW)
def test_what_postgres_fdw_sends_is_understood(text: str) -> None:
    assert parse_statement(text) is not None


@pytest.mark.parametrize("text", NEVER_RUN)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(StatementRefused):
        parse_statement(text)


def test_statements_are_cut_at_semicolons_outside_quotes() -> None:
    assert split_statements("a ';' b; \"x;y\" ; -- no ;\n c; E'\\';' ;; $q$ ; $q$") == (
        "a ';' b",
        '"x;y"',
        "-- no ;\n c",
        "E'\\';'",
        "$q$ ; $q$",
    )


def test_functions_that_do_more_than_compute_are_refused() -> None:
    functions = frozenset({"upper", "length", "sum"})
    check_functions("select upper(a), sum(length(b)) from x.y where a in ('b') and (c = any ('{1}'))", functions)
    for bad in (
        "select pg_read_file('/etc/passwd')",
        "select set_config('a', 'b', false)",
        "select evil.f(1)",
        "select evil.upper(a)",
        "select 'x'::regclass",
        "select pg_catalog.pg_sleep(5)",
        "select a operator(evil.+) b",
    ):
        with pytest.raises(StatementRefused):
            check_functions(bad, functions)


@given(
    moment=st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)),
    minutes=st.integers(-14 * 60, 14 * 60),
)
def test_timestamps_with_any_offset_are_read_exactly(moment: datetime, minutes: int) -> None:
    sign, size = ("-" if minutes < 0 else "+"), abs(minutes)
    text = f"{moment.isoformat(' ', 'microseconds')}{sign}{size // 60:02d}:{size % 60:02d}"
    expected = (
        moment.replace(tzinfo=UTC) - timedelta(minutes=minutes) - datetime(1970, 1, 1, tzinfo=UTC)
    ) // timedelta(microseconds=1)
    assert parse_value("timestamptz", Constant(text, "timestamptz")) == expected


@given(micros=st.integers(-210_866_803_200_000_000, 9_223_371_000_000_000_000))
def test_a_rendered_timestamp_reads_back_as_the_same_value(micros: int) -> None:
    assert parse_value("timestamp", Constant(render_timestamp(micros, ""), "timestamp")) == micros
    assert parse_value("timestamptz", Constant(render_timestamp(micros, "+00"), "timestamptz")) == micros


@given(days=st.integers(-2_440_588, 20_000_000))
def test_a_rendered_date_reads_back_as_the_same_value(days: int) -> None:
    assert parse_value("date", Constant(render_date(days), "date")) == days


@given(day=st.dates())
def test_dates_of_the_common_era_are_rendered_as_python_does(day: date) -> None:
    assert render_date((day - date(1970, 1, 1)).days) == day.isoformat()


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("timestamptz", "infinity", Infinity(True)),
        ("date", "-infinity", Infinity(False)),
        ("decimal", "-1.50", Decimal("-1.50")),
        ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")),
        ("binary", "\\xDEad", b"\xde\xad"),
        ("boolean", "t", True),
        ("long", "-9223372036854775808", -(2**63)),
    ],
)
def test_plain_constants_are_read(kind: str, text: str, value: object) -> None:
    assert parse_value(kind, Constant(text, "unknown")) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("long", "9223372036854775808"),
        ("long", "0x10"),
        ("long", "1_000"),
        ("int", "1.0"),
        ("timestamptz", "now"),
        ("date", "today"),
        ("date", "2023-02-29"),
        ("date", "01/02/2023"),
        ("timestamptz", "2026-01-01 24:00:00+00"),
        ("timestamp", "2026-01-01 00:00:00+02"),
        ("uuid", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}"),
        ("binary", "abc"),
        ("decimal", "NaN"),
        ("boolean", "yes"),
        ("double", "1e999"),
    ],
)
def test_constants_in_another_form_are_left_to_postgres(kind: str, text: str) -> None:
    with pytest.raises(NotProvable):
        parse_value(kind, Constant(text, "unknown"))


@given(
    values=st.lists(
        st.none() | st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=8),
        max_size=5,
    )
)
def test_array_text_is_read_as_postgres_writes_it(values: list[str | None]) -> None:
    def written(value: str | None) -> str:
        return "NULL" if value is None else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    assert parse_array("{" + ",".join(map(written, values)) + "}") == tuple(values)


@given(
    numbers=st.lists(
        st.none() | st.decimals(allow_nan=False, allow_infinity=False, places=10, max_value=10**25, min_value=-(10**25))
    )
)
def test_decimals_are_written_plainly_with_their_scale(numbers: list[Decimal | None]) -> None:
    texts = to_text(pa.array(numbers, pa.decimal128(38, 10))).to_pylist()
    for text, number in zip(texts, numbers, strict=True):
        assert (text is None) == (number is None)
        if text is not None and number is not None:
            assert "E" not in text
            assert Fraction(text) == Fraction(number)
            assert len(text.partition(".")[2]) == 10


@given(numbers=st.lists(st.none() | st.floats()))
def test_floats_read_back_as_the_same_value(numbers: list[float | None]) -> None:
    texts = to_text(pa.array(numbers, pa.float64())).to_pylist()
    assert [None if t is None else repr(float(t)) for t in texts] == [
        None if n is None else repr(float(n)) for n in numbers
    ]


@given(
    rows=st.lists(
        st.tuples(st.none() | st.binary(max_size=9), st.none() | st.text(max_size=9), st.none() | st.booleans())
    )
)
def test_rows_are_cut_where_they_begin_and_end(rows: list[tuple[bytes | None, str | None, bool | None]]) -> None:
    kinds = (pa.binary(), pa.string(), pa.bool_())
    batch = pa.record_batch(
        [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)], names=["a", "b", "c"]
    )
    encoded = encode_rows(batch.slice(0))
    assert encoded.row_count == len(rows)
    for number, (raw, text, flag) in enumerate(rows):
        fields = (
            None if raw is None else b"\\x" + raw.hex().encode(),
            None if text is None else text.encode(),
            None if flag is None else b"t" if flag else b"f",
        )
        body = b"".join(b"\xff\xff\xff\xff" if f is None else len(f).to_bytes(4, "big") + f for f in fields)
        assert bytes(encoded.piece(number, 1)) == b"D" + (len(body) + 6).to_bytes(4, "big") + b"\0\3" + body


def test_copy_text_escapes_what_copy_reads_specially() -> None:
    batch = pa.record_batch([pa.array(["a\tb\\N\n\r", None, ""]), pa.array([b"\x5c", None, b""])], names=["a", "b"])
    assert bytes(encode_copy(batch)) == b"a\\tb\\\\N\\n\\r\t\\\\x5c\n\\N\t\\N\n\t\\\\x\n"


def _log_in(verifier: str | None, password: str) -> None:
    exchange = ScramExchange("ann", verifier)
    client = scramp.ScramClient(["SCRAM-SHA-256"], "ann", password)
    client.set_server_first(exchange.first(client.get_client_first().encode()).decode())
    client.set_server_final(exchange.final(client.get_client_final().encode()).decode())


def test_the_right_password_logs_in_and_the_server_proves_itself() -> None:
    _log_in(make_verifier("pässword"), "pässword")
    with pytest.raises(WrongCredentials):
        _log_in(make_verifier("pässword"), "passwort")


@pytest.mark.parametrize("verifier", [make_verifier("other"), None, "md5abc", ""])
def test_a_wrong_password_an_unknown_user_and_a_broken_verifier_end_the_same_way(verifier: str | None) -> None:
    with pytest.raises(WrongCredentials):
        _log_in(verifier, "secret")


def test_an_unknown_user_always_gets_the_same_salt() -> None:
    salts = {ScramExchange("nobody", None).first(b"n,,n=,r=abc").split(b",")[1] for _ in range(3)}
    assert len(salts) == 1


@given(data=st.binary(max_size=80))
def test_garbage_in_the_exchange_is_a_wrong_password(data: bytes) -> None:
    exchange = ScramExchange("ann", make_verifier("x"))
    with pytest.raises(WrongCredentials):
        exchange.final(data)


PRINTED = {
    8: {
        "0": 0.0,
        "-0": -0.0,
        "1": 1.0,
        "0.1": 0.1,
        "1e+15": 1e15,
        "123456789012345.6": 123456789012345.6,
        "0.0001": 1e-4,
        "1e-05": 1e-5,
        "1.5e-07": 1.5e-7,
        "9.999999999999999e+22": 1e23,
        "5e-324": 5e-324,
        "7.120236347223045e-307": 2.0**-1017,
        "7.174648137343064e-43": 2.0**-140,
        "1.7976931348623157e+308": 1.7976931348623157e308,
        "51255482385.67197": 51255482385.67197,
        "NaN": float("nan"),
        "Infinity": float("inf"),
        "-Infinity": float("-inf"),
        "9.007199254740992e+15": 9007199254740993.0,
        "-66926478731690.96": -66926478731690.96,
    },
    4: {
        "0.1": 0.1,
        "1e+06": 1e6,
        "123456.7": 123456.7,
        "3.8878712e+06": 3887871.25,
        "1.6777216e+07": 16777217.0,
        "1e-45": 1e-45,
        "3.4e+38": 3.4e38,
        "1.2621119e-05": 1.2621119e-5,
    },
}
"""What Postgres 18 prints for these."""


@pytest.mark.parametrize("width", [8, 4])
def test_floats_are_printed_as_postgres_prints_them(width: int) -> None:
    kind = pa.float64() if width == 8 else pa.float32()
    assert to_text(pa.array([None, *PRINTED[width].values()], kind)).to_pylist() == [None, *PRINTED[width]]


@given(st.floats())
def test_a_printed_float_is_read_as_the_same_float(value: float) -> None:
    (text,) = to_text(pa.array([value], pa.float64())).to_pylist()
    assert repr(float(text)) == repr(value)


def test_the_end_of_a_day_is_a_time_and_what_lies_behind_is_none() -> None:
    times = pa.array([0, None, 86_400_000_000, 43_200_500_000], pa.int64()).cast(pa.time64("us"))
    assert to_text(times).to_pylist() == ["00:00:00", None, "24:00:00", "12:00:00.5"]
    with pytest.raises(ValueError, match=r"beyond 24:00"):
        to_text(pa.array([86_400_000_001], pa.int64()).cast(pa.time64("us")))


@pytest.mark.parametrize(
    ("kind", "oid", "outside"),
    [
        (pa.date32(), 1082, (-2_440_589, 2_145_031_949)),
        (pa.timestamp("us"), 1114, (-2_440_588 * 86_400_000_000 - 1,)),
        (pa.timestamp("us", "UTC"), 1184, (-2_440_588 * 86_400_000_000 - 1,)),
    ],
)
def test_no_day_beyond_the_calendar_of_postgres_is_sent(kind: pa.DataType, oid: int, outside: tuple[int, ...]) -> None:
    """DuckDB computes `date - integer` further back than Postgres, which raises an error instead."""
    for number in outside:
        column = pa.array([0, None, number], pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
        for render in (to_text, partial(to_binary, oid=oid)):
            with pytest.raises(ValueError, match=r"beyond Postgres' calendar"):
                render(column)


@given(st.lists(st.integers(1, 700_000), max_size=20))
def test_a_large_message_of_a_client_passes_in_parts_however_its_bytes_are_cut(cuts: list[int]) -> None:
    small, large = b"Q" + struct.pack(">i", 9) + b"abcd\0", b"Q" + struct.pack(">i", 3_000_004) + b"x" * 3_000_000
    stream, frames, passed = small + large + small, ClientFrameReader(), []
    for size in [*cuts, len(stream)]:
        frames.feed(stream[:size])
        stream = stream[size:]
        while (piece := frames.next_frame()) is not None:
            passed.append(piece)
    assert (passed[0], passed[-1]) == (Frame(b"Q", small), Frame(b"Q", small))
    assert [piece.tag for piece in passed[1:-1]] == [b"Q"] + [None] * (len(passed) - 3)
    assert b"".join(piece.data for piece in passed[1:-1]) == large


async def _discard(_: bytes | memoryview) -> None:
    """A client that reads everything."""


async def _run_blocking(work: Callable[[], object]) -> object:
    return await asyncio.to_thread(work)


async def _with_silent_postgres(test: Callable[[RelayLink, asyncio.StreamReader], Awaitable[None]]) -> None:
    """A line to a Postgres that takes everything and answers nothing."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    try:
        await test(
            RelayLink(
                UpstreamConnection(reader, writer, PostgresEndpoint(host="", port=0, database="", tls=None)),
                ServerFrameReader(),
                _discard,
            ),
            reader,
        )
    finally:
        writer.close()
        theirs.close()


def test_a_session_that_ends_while_it_is_kept_awake_waits_for_nothing() -> None:
    async def check(link: RelayLink, _: asyncio.StreamReader) -> None:
        control = StatementControl(_run_blocking, timeout_seconds=0, slow_seconds=0)
        interceptor = QueryInterceptor(cast(WholeQueryService, None), link, _discard, control)

        async def compute() -> None:
            async with interceptor.keep_awake(0.04):
                await asyncio.sleep(60)

        computing = asyncio.create_task(compute())
        while link.is_idle:
            await asyncio.sleep(0.01)
        computing.cancel()
        done, _pending = await asyncio.wait({computing}, timeout=5)
        assert done == {computing}
        assert computing.cancelled()

    asyncio.run(_with_silent_postgres(check))


def test_a_question_ends_when_the_network_does() -> None:
    async def check(link: RelayLink, reader: asyncio.StreamReader) -> None:
        listening, asking = asyncio.create_task(link.listen()), asyncio.create_task(link.exchange(SYNC))
        while link.is_idle:
            await asyncio.sleep(0.01)
        reader.set_exception(OSError(113, "No route to host"))
        await asyncio.wait({listening, asking}, timeout=5)
        assert listening.done()
        assert listening.exception() is None
        assert asking.done()
        assert isinstance(asking.exception(), LinkClosed)

    asyncio.run(_with_silent_postgres(check))
