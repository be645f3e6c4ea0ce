"""What should not be sent, stored or asked: each is an error for whoever did it, and for nobody else."""

from __future__ import annotations

import json
import random
import socket
import struct
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from psycopg.conninfo import make_conninfo
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
from tests.gateway.recorded_sessions import log_in, next_message, read_fdw_recording
from tests.gateway.recording import split_messages

from thermocline.gateway.config import GatewayConfig
from thermocline.gateway.server import start_in_thread

NOTES = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "note", StringType(), required=False))


@pytest.fixture
def notes(site: Any) -> Any:
    """`public.notes` in the lake, two rows."""
    site.lake.create("notes", NOTES)
    site.lake.foreign_table("notes", "id bigint, note text")
    site.lake.append("notes", pa.table({"id": pa.array([1, 2], pa.int64()), "note": ["7", "abc"]}))
    return site


def _snapshot(site: Any) -> int:
    return int(site.conn.execute("select s from thermocline.cutline").fetchone()[0])


@contextmanager
def _raw(site: Any) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", site.gateway.port), timeout=20) as line:
        yield line


def _hang_up(line: socket.socket) -> bytes:
    """What the gateway still says until it ends the connection."""
    try:
        line.shutdown(socket.SHUT_WR)
        heard = b""
        while piece := line.recv(65_536):
            heard += piece
    except ConnectionError:
        return b""
    return heard


def _garbage() -> list[tuple[str, bool, Callable[[random.Random], bytes]]]:
    """Name, whether it is said after the login, and the bytes."""
    parse = b"P" + struct.pack(">i", 40) + b"s\0select id from public.notes"
    return [
        ("random bytes", False, lambda chance: chance.randbytes(200)),
        ("a web request", False, lambda _: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        ("a length of two gigabytes", False, lambda _: struct.pack(">i", 2**31 - 1)),
        ("a negative length", False, lambda _: struct.pack(">i", -5) + b"x" * 20),
        ("half a startup", False, lambda _: struct.pack(">ii", 80, 196608) + b"user\0post"),
        ("random bytes", True, lambda chance: b"\xfe" + chance.randbytes(200)),
        ("a message of two gigabytes", True, lambda _: b"Q" + struct.pack(">i", 2**31 - 1) + b"select"),
        ("a negative length", True, lambda _: b"Q" + struct.pack(">i", -1)),
        ("half a message", True, lambda _: parse[:20]),
        ("a message longer than its fields", True, lambda _: b"S" + struct.pack(">i", 8) + b"abcd"),
        ("text that is not UTF-8", True, lambda _: b"Q" + struct.pack(">i", 8) + b"\xff\xfe\xfd\0"),
        ("a password after the login", True, lambda _: b"p" + struct.pack(">i", 8) + b"abc\0"),
    ]


@pytest.mark.conforms("O-100")
def test_any_split_gives_the_same_answers_and_garbage_closes_its_own_connection_only(notes: Any) -> None:
    chance, startup = random.Random(11), read_fdw_recording("18")[0].data
    query = b"select id, note from public.notes where _snapshot = %d order by id" % _snapshot(notes)
    asked = b"".join(
        kind + struct.pack(">i", len(body) + 4) + body
        for kind, body in (
            (b"Q", query + b"\0"),
            (b"P", b"s\0" + query + b"\0\0\0"),
            (b"B", b"\0s\0" + bytes(6)),
            (b"E", b"\0" + bytes(4)),
            (b"S", b""),
        )
    )
    answers = set()
    with psycopg.connect(notes.direct_dsn(), autocommit=True) as witness:
        for cut in (1, 2, 3, 5, 7, 50, len(asked)):
            with _raw(notes) as line:
                log_in(line, startup)
                for at in range(0, len(asked), cut):
                    line.sendall(asked[at : at + cut])
                heard: list[bytes] = []
                while [message[:1] for message in heard].count(b"Z") < 2:
                    heard.append(next_message(line))
                answers.add(b"".join(heard))
        assert len(answers) == 1
        assert b"".join(message[:1] for message in split_messages(answers.pop())) == b"TDDCZ12DDCZ"
        for name, after_login, garbage in _garbage():
            with _raw(notes) as line:
                if after_login:
                    log_in(line, startup)
                line.sendall(garbage(chance))
                left = _hang_up(line)
                assert left == b"" or left[:1] == b"E", name
            assert witness.execute(query).fetchall() == [(1, "7"), (2, "abc")], name


@pytest.mark.conforms("O-101")
def test_the_version_asked_for_is_the_one_read_and_one_that_is_gone_is_an_error(notes: Any) -> None:
    first = _snapshot(notes)
    second = notes.lake.append("notes", pa.table({"id": pa.array([3], pa.int64()), "note": ["new"]}))
    counted = "select count(*) from thermocline_lake.notes where _snapshot = %s"
    assert notes.conn.execute(counted, (first,)).fetchone() == (2,)
    assert notes.conn.execute(counted, (second,)).fetchone() == (3,)
    with pytest.raises(psycopg.Error, match=f"has no snapshot {first + 1}") as unknown:
        notes.conn.execute(counted, (first + 1,))
    assert unknown.value.sqlstate == "55000"
    _expire(notes, first)
    counted = "select count(*) from public.notes where _snapshot = %s"
    with start_in_thread(notes.dsn) as fresh, _connected(notes, fresh.port) as direct:
        with pytest.raises(psycopg.Error, match=f"has no snapshot {first}") as expired:
            direct.execute(counted, (first,))
        assert expired.value.sqlstate == "55000"
        assert "expired" in str(expired.value.diag.message_hint)
        assert direct.execute(counted, (second,)).fetchone() == (3,)


def _connected(site: Any, port: int) -> psycopg.Connection[Any]:
    return psycopg.connect(make_conninfo(site.direct_dsn(), port=port), autocommit=True)


def _expire(site: Any, snapshot: int) -> None:
    """The table without one of its snapshots, as expiry leaves it."""
    table = site.lake.tables["notes"]
    told = json.loads(table.metadata.model_dump_json())
    told["snapshots"] = [known for known in told["snapshots"] if known["snapshot-id"] != snapshot]
    told["snapshot-log"] = [entry for entry in told.get("snapshot-log", []) if entry["snapshot-id"] != snapshot]
    path: Path = site.lake.warehouse / "notes" / "metadata" / "expired.metadata.json"
    path.write_text(json.dumps(told))
    site.lake.point_at("notes", f"file://{path}")


@pytest.mark.conforms("O-103")
def test_wrong_encoding_unknown_column_and_type_mismatch_name_the_column(notes: Any) -> None:
    snapshot = _snapshot(notes)
    lake = f"thermocline_lake.notes where _snapshot = {snapshot}"
    notes.conn.execute("alter foreign table thermocline_lake.notes add gone text")
    notes.conn.execute("alter foreign table thermocline_lake.notes alter note type bigint")
    for query, sqlstate, column in (
        (f"select id, gone from {lake}", "42703", "gone"),
        (f"select id from {lake} and gone = 'x'", "42703", "gone"),
        (f"select id, note from {lake}", "22P02", "note"),
        (f"select id from {lake} and note > 5", "22P02", "note"),
    ):
        with pytest.raises(psycopg.Error) as refused:
            notes.conn.execute(query.encode())
        assert refused.value.sqlstate == sqlstate, query
        assert f'column "{column}"' in str(refused.value), query
    notes.conn.execute("alter foreign table thermocline_lake.notes alter note type text")
    notes.conn.execute("alter foreign table thermocline_lake.notes drop gone")
    _write_bad_text(notes.lake.files("notes")[0])
    for query in (f"select id, note from {lake}", f"select upper(note) from {lake}"):
        with pytest.raises(psycopg.Error, match=r'Column "note" of lake file .* not UTF-8') as refused:
            notes.conn.execute(query.encode())
        assert refused.value.sqlstate == "22021"
    assert notes.conn.execute(f"select count(*), max(id) from {lake}".encode()).fetchone() == (2, 2)


def _write_bad_text(file: Path) -> None:
    rows = pq.read_table(file)
    bad = pa.Array.from_buffers(pa.string(), 2, pa.array([b"ok", b"\xff\xfe"]).buffers())
    pq.write_table(pa.table([rows.column(0), bad], schema=rows.schema), file)


def test_quantiles_of_the_last_statements_are_among_the_metrics(notes: Any) -> None:
    config = GatewayConfig(dsn=notes.dsn, http_port=_free_port())
    with start_in_thread(notes.dsn, config=config) as gateway:
        with _connected(notes, gateway.port) as direct:
            for _ in range(20):
                direct.execute("select id from public.notes where _snapshot = %s", (_snapshot(notes),))
        told = urllib.request.urlopen(f"http://127.0.0.1:{config.http_port}/metrics", timeout=10).read().decode()
    line = 'thermocline_gateway_latency_seconds{{quantile="{}"}} '
    seen = [float(told.split(line.format(share))[1].split()[0]) for share in ("0.5", "0.95", "0.99")]
    assert 0 < seen[0] <= seen[1] <= seen[2]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.mark.conforms("C-075")
def test_filters_columns_limits_and_plain_aggregates_reach_the_gateway_which_tells_what_it_skipped(site: Any) -> None:
    site.lake.create("notes", NOTES)
    site.lake.foreign_table("notes", "id bigint, note text")
    for first in range(0, 1000, 100):
        rows = pa.table(
            {"id": pa.array(range(first, first + 100), pa.int64()), "note": [f"note {n}" for n in range(100)]}
        )
        snapshot = site.lake.append("notes", rows)
    lake = f"thermocline_lake.notes where _snapshot = {snapshot}"
    config = GatewayConfig(dsn=site.dsn, http_port=_free_port())
    with start_in_thread(site.dsn, config=config) as gateway:
        site.conn.execute(f"alter server thermocline_gateway options (set port '{gateway.port}')".encode())
        site.conn.execute("analyze thermocline_lake.notes")
        for query, remote in (
            (
                f"select id from {lake} and id between 250 and 260",
                "SELECT id FROM public.notes WHERE ((id >= 250)) AND ((id <= 260))",
            ),
            (f"select note from {lake} and id >= 800 limit 5", "LIMIT 5"),
            (
                f"select count(*), min(id), max(id) from {lake} and id < 150",
                "SELECT count(*), min(id), max(id) FROM public.notes",
            ),
        ):
            plan = "\n".join(row[0] for row in site.conn.execute(f"explain verbose {query}".encode()).fetchall())
            assert remote in plan, plan
            before = _counters(config.http_port)
            assert site.conn.execute(query.encode()).fetchall()
            after = _counters(config.http_port)
            scanned, skipped, read, left = (after[name] - before[name] for name in after)
            assert scanned + skipped == 10
            assert skipped >= 8
            assert read + left == sum(file.stat().st_size for file in site.lake.files("notes"))
            assert left > 3 * read


def _counters(port: int | None) -> dict[str, float]:
    told = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
    names = ("files_scanned", "files_skipped", "bytes_read", "bytes_skipped")
    return {name: float(told.split(f"\nthermocline_gateway_{name}_total ")[1].split()[0]) for name in names}
