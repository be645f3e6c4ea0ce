"""Conversations of `postgres_fdw` with the gateway, written down byte for byte: what is asked, how it is recorded, how
it is read back.

Everything in them is the same each time but the login, whose numbers are random by design: the lake table has fixed
rows and a fixed snapshot id, and the questions are asked in one session.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import psycopg
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

FOLDER = Path(__file__).parent / "recordings"
MAJORS = {"14": "14.20.0", "15": "15.15.0", "16": "16.11.0", "17": "17.7.0", "18": "18.1.0"}
SNAPSHOT = 4_242_424_242_424_242_424
ROWS = 120
COLUMNS = "id bigint, ts timestamptz, note text, amount numeric(12,2), ratio double precision, ok boolean, day date"
_SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "ts", TimestamptzType(), required=False),
    NestedField(3, "note", StringType(), required=False),
    NestedField(4, "amount", DecimalType(12, 2), required=False),
    NestedField(5, "ratio", DoubleType(), required=False),
    NestedField(6, "ok", BooleanType(), required=False),
    NestedField(7, "day", DateType(), required=False),
)
LAKE = f"(select id, ts, note, amount, ratio, ok, day from thermocline_lake.recorded where _snapshot = {SNAPSHOT})"
QUESTIONS = (
    f"select * from {LAKE} l",
    f'select count(*), min(id), max(ts), min(note collate "C") from {LAKE} l',
    f"select * from {LAKE} l where id = 71",
    f"select id, amount, ratio from {LAKE} l where ts < '1970-01-01 00:01:00+00' order by id",
    f"select id from {LAKE} l where note = 'note 3' and ok order by id limit 10 offset 5",
    f"select note, count(*), sum(id), sum(amount) from {LAKE} l group by note order by note",
    f"select upper(note), id % 3 from {LAKE} l where length(note) = 6 and id < 20 order by id",
    f"select a.id, b.note from {LAKE} a join {LAKE} b using (id) where a.id between 10 and 20 order by 1",
    f"select id, day from {LAKE} l where id in (1, 2, 3) or day is null order by id",
    f"select x, (select note from {LAKE} l where l.id = x) from generate_series(7, 9) x",
    f"select distinct ok from {LAKE} l order by ok nulls first",
)


@dataclass(frozen=True)
class Turn:
    """The bytes that one side sent before the other responded."""

    who: Literal["client", "server"]
    data: bytes


def make_recorded_lake(site: Any) -> None:
    """The table that conversations are about: the same rows, in one file, under the same snapshot id."""
    site.lake.create("recorded", _SCHEMA)
    site.lake.foreign_table("recorded", COLUMNS)
    numbers = range(ROWS)
    rows = [
        pa.array(numbers, pa.int64()),
        pa.array([number * 1_000_000 for number in numbers], pa.timestamp("us", "UTC")),
        pa.array([None if number % 97 == 0 else f"note {number % 7}" for number in numbers]),
        pa.array([number * 5 for number in numbers], pa.int64()).cast(pa.decimal128(21, 2)),
        pa.array([number / 8 - 3 for number in numbers]),
        pa.array([None if number % 11 == 0 else number % 2 == 0 for number in numbers]),
        pa.array([None if number % 13 == 0 else number * 40 for number in numbers], pa.int32()).cast(pa.date32()),
    ]
    rows[3] = rows[3].cast(pa.decimal128(12, 2))
    made = site.lake.append("recorded", pa.table(rows, names=[field_.name for field_ in _SCHEMA.fields]))
    table = site.lake.tables["recorded"]
    fixed = table.metadata.model_dump_json().replace(f":{made}", f":{SNAPSHOT}")
    TableMetadataUtil.parse_raw(fixed)
    path = site.lake.warehouse / "recorded" / "metadata" / "fixed.metadata.json"
    path.write_text(fixed)
    site.lake.point_at("recorded", f"file://{path}")
    site.lake.publish("recorded", SNAPSHOT)


def converse(conn: psycopg.Connection[Any]) -> None:
    """Run all queries in one session of a Postgres whose foreign server is the gateway; all must succeed."""
    conn.execute("alter server thermocline_gateway options (set fetch_size '50')")
    for question in QUESTIONS:
        conn.execute(question.encode()).fetchall()
    conn.execute("set plan_cache_mode = force_generic_plan")
    conn.execute(
        "prepare one(bigint, bigint) as select note from thermocline_lake.recorded where id = $1 and _snapshot = $2"
    )
    for number in (8, 97):
        conn.execute(f"execute one({number}, {SNAPSHOT})".encode()).fetchall()
    conn.execute("reset plan_cache_mode")
    counted = f"select count(*) from thermocline_lake.recorded where _snapshot = {SNAPSHOT}".encode()
    with conn.transaction():
        conn.execute(counted)
        with suppress(psycopg.errors.ObjectNotInPrerequisiteState), conn.transaction():
            conn.execute("select count(*) from thermocline_lake.recorded where _snapshot = 1")
        conn.execute(counted)
    _read_nested(conn)
    conn.execute("analyze thermocline_lake.recorded")
    conn.execute("alter foreign table thermocline_lake.recorded options (add use_remote_estimate 'true')")
    conn.execute(f"select id from {LAKE} l where id < 10 order by id".encode()).fetchall()


def _read_nested(conn: psycopg.Connection[Any]) -> None:
    """A scan begun again for each outer row, with other parameters and with the same."""
    for name in ("hashjoin", "mergejoin", "material", "memoize"):
        if name != "memoize" or conn.info.server_version >= 140000:
            conn.execute(f"set enable_{name} = off".encode())
    conn.execute("create temporary table outer_rows as select i as id from generate_series(1, 3) i")
    conn.execute(
        f"select o.id, l.note from outer_rows o join {LAKE} l on l.id = o.id * 30 order by 1".encode()
    ).fetchall()
    conn.execute(
        f"select o.id, l.id from outer_rows o left join {LAKE} l on l.id % 40 = o.id order by 1, 2".encode()
    ).fetchall()
    conn.execute("reset all")


@dataclass
class Recorder:
    """A proxy that forwards every byte to the gateway and records both directions."""

    port: int
    conversations: list[list[Turn]] = field(default_factory=list)


@contextmanager
def record(gateway_port: int) -> Iterator[Recorder]:
    """A recorder in front of a gateway."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        recorder = Recorder(port=listening.getsockname()[1])
        threading.Thread(target=_accept, args=(listening, gateway_port, recorder), daemon=True).start()
        yield recorder


def _accept(listening: socket.socket, gateway_port: int, recorder: Recorder) -> None:
    while True:
        try:
            client, _ = listening.accept()
        except OSError:
            return
        turns: list[Turn] = []
        recorder.conversations.append(turns)
        server = socket.create_connection(("127.0.0.1", gateway_port))
        threading.Thread(target=_forward_bytes, args=(client, server, "client", turns), daemon=True).start()
        threading.Thread(target=_forward_bytes, args=(server, client, "server", turns), daemon=True).start()


def _forward_bytes(
    source: socket.socket, target: socket.socket, who: Literal["client", "server"], turns: list[Turn]
) -> None:
    while data := source.recv(65_536):
        if turns and turns[-1].who == who:
            turns[-1] = Turn(who, turns[-1].data + data)
        else:
            turns.append(Turn(who, data))
        target.sendall(data)
    target.close()


def write_recording(path: Path, version: str, turns: list[Turn]) -> None:
    lines = [json.dumps({"postgres_fdw": version})]
    lines += [json.dumps({turn.who: turn.data.decode("latin-1")}) for turn in turns]
    path.write_text("\n".join(lines) + "\n", encoding="ascii")


def read_recording(path: Path) -> list[Turn]:
    turns = []
    for line in path.read_text(encoding="ascii").splitlines()[1:]:
        ((who, text),) = json.loads(line).items()
        turns.append(Turn(who, text.encode("latin-1")))
    return turns


def split_messages(data: bytes) -> list[bytes]:
    """The typed messages of either side."""
    messages = []
    while data:
        (length,) = struct.unpack(">i", data[1:5])
        messages.append(data[: length + 1])
        data = data[length + 1 :]
    return messages
