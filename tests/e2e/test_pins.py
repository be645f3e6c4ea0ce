"""Pins: a reader outside Postgres takes one point in time with it, and never holds up what moves."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from pyiceberg.table import StaticTable
from tests.twin import Spanning
from tests.twin_transaction import spanning_module

from thermocline.catalog.pins import read_pins, read_pins_to_keep, read_swept, sweep_pins
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.postgres_server import PostgresServer
from thermocline.worker.loop import Worker

PIN = "select id, snapshot_id, metadata_location, t from thermocline.pin('public.events', %s)"


@pytest.fixture(scope="module")
def tiered(postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spanning]:
    with spanning_module(postgres, template, tmp_path_factory.mktemp("pins")) as spanning:
        spanning.tier()
        yield spanning


@pytest.fixture
def roles(tiered: Spanning) -> Iterator[tuple[str, str]]:
    """Two logins, a reader of the table and one that may read nothing."""
    names = f"reader_{uuid.uuid4().hex[:8]}", f"other_{uuid.uuid4().hex[:8]}"
    with closing(connect(tiered.dsn, autocommit=True)) as conn:
        for name in names:
            conn.execute(sql.SQL("create role {} login password 'secret'").format(sql.Identifier(name)))
        conn.execute(sql.SQL("grant usage on schema public_all to {}").format(sql.Identifier(names[0])))
        conn.execute(sql.SQL("grant select on public_all.events to {}").format(sql.Identifier(names[0])))
    yield tuple(make_conninfo(tiered.dsn, user=name, password="secret") for name in names)  # type: ignore[misc]
    with closing(connect(tiered.dsn, autocommit=True)) as conn:
        for name in names:
            conn.execute(sql.SQL("drop owned by {}").format(sql.Identifier(name)))
            conn.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def _rows(conn: psycopg.Connection[Any], statement: str, *values: object) -> list[tuple[Any, ...]]:
    return conn.execute(statement.encode(), values or None).fetchall()


def _read_lake(metadata_location: str, snapshot: int) -> list[tuple[int, int]]:
    """The lake by another engine, at the pinned metadata and snapshot."""
    scan = StaticTable.from_metadata(metadata_location).scan(snapshot_id=snapshot, selected_fields=("id", "v"))
    return sorted((row["id"], row["v"]) for row in scan.to_arrow().to_pylist())


@pytest.mark.conforms("C-077")
def test_a_reader_outside_postgres_pins_t_s_and_the_pointer_of_one_point_in_time(tiered: Spanning) -> None:
    with closing(connect(tiered.dsn)) as reader:
        reader.execute("set transaction isolation level repeatable read")
        before = _rows(reader, "select id, v from public_all.events where ts < '2026-04-01 00:00+00' order by id")
        tiered.both("update events set v = v + 1000 where id between 10 and 20")
        tiered.fold()
        ((pin, snapshot, metadata_location, t),) = _rows(reader, PIN, "1 minute")
        with closing(connect(tiered.dsn, autocommit=True)) as maintenance:
            assert pin not in {found.id for found in read_pins(maintenance)}
            reader.commit()
            assert pin in {found.id for found in read_pins_to_keep(maintenance, 1)}
    ((published, line),) = tiered.query("select s, t from thermocline.cutline")
    assert (t, snapshot != published) == (line, True)
    assert _read_lake(metadata_location, snapshot) == before
    assert _rows(tiered.seam, "select thermocline.release_pin(%s)", pin) == [(True,)]
    tiered.assert_same_rows()


@pytest.mark.conforms("C-077")
def test_a_reader_outside_postgres_is_told_of_the_corrections_that_its_snapshot_lacks(tiered: Spanning) -> None:
    told: list[tuple[str, str]] = []
    take = (
        "select id, snapshot_id, metadata_location, pending_corrections from thermocline.pin('public.events', '1 "
        "minute')"
    )
    below = "select id, v from public_all.events where ts < '2026-04-01 00:00+00' order by id"
    with closing(connect(tiered.dsn)) as reader:
        reader.add_notice_handler(lambda notice: told.append((notice.message_primary or "", notice.message_hint or "")))
        tiered.fold()
        ((_, _, metadata_location, pending),) = _rows(reader, take)
        assert (pending, told) == (0, [])
        reader.commit()
        tiered.both("update events set v = v + 7 where id between 230 and 233")
        tiered.both("delete from events where id = 234")
        tiered.both("update events set v = v + 7 where ts >= '2026-04-02 00:00+00'")
        reader.execute("set transaction isolation level repeatable read")
        ((_, snapshot, metadata_location, pending),) = _rows(reader, take)
        assert pending == 5
        ((message, hint),) = told
        assert message == "5 corrections of public.events wait in Postgres and are not in the lake at this snapshot"
        assert "thermocline fold public.events" in hint
        assert len(set(_read_lake(metadata_location, snapshot)) ^ set(_rows(reader, below))) == 4 * 2 + 1
        reader.commit()
        tiered.fold()
        ((_, snapshot, metadata_location, pending),) = _rows(reader, take)
        assert pending == 0
        assert _read_lake(metadata_location, snapshot) == _rows(reader, below)
        reader.commit()
    properties = StaticTable.from_metadata(metadata_location).properties
    assert "thermocline.pin()" in properties["thermocline.pending-corrections"]
    tiered.query("select count(thermocline.release_pin(id)) from thermocline.read_pins")


@pytest.mark.conforms("C-077")
def test_who_deletes_waits_for_a_pin_that_is_being_taken(tiered: Spanning) -> None:
    with closing(connect(tiered.dsn)) as reader, closing(connect(tiered.dsn, autocommit=True)) as maintenance:
        ((pin, *_),) = _rows(reader, PIN, "1 minute")
        maintenance.execute("set lock_timeout = 100")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            read_pins_to_keep(maintenance, 1)
        maintenance.execute("set lock_timeout = 0")
        seen: list[int] = []
        waiting = threading.Thread(target=lambda: seen.extend(found.id for found in read_pins_to_keep(maintenance, 1)))
        waiting.start()
        reader.commit()
        waiting.join()
        assert pin in seen
        assert _rows(maintenance, "select thermocline.release_pin(%s)", pin) == [(True,)]


@pytest.mark.conforms("C-078")
def test_only_its_holder_or_an_operator_renews_and_releases_a_pin(tiered: Spanning, roles: tuple[str, str]) -> None:
    with (
        closing(connect(roles[0], autocommit=True)) as holder,
        closing(connect(roles[1], autocommit=True)) as other,
        closing(connect(tiered.dsn, autocommit=True)) as operator,
    ):
        ((pin, minutes),) = _rows(
            holder,
            (
                "select id, round(extract(epoch from expires_at - clock_timestamp()) / 60) from "
                "thermocline.pin('public_all.events')"
            ),
        )
        assert minutes == 15
        for denied in ("renew_pin", "release_pin"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match=r"^TC701: pin .* is held by role"):
                _rows(other, f"select thermocline.{denied}(%s)", pin)
        with pytest.raises(psycopg.errors.UndefinedTable, match=r"^TC206: .* is not a table that spans"):
            _rows(other, "select thermocline.pin('public.events'::regclass)")
        for statement in ("insert into thermocline.read_pins default values", "delete from thermocline.read_pins"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                holder.execute(statement.encode())
        ((hours,),) = _rows(
            holder, "select extract(epoch from thermocline.renew_pin(%s, '2 hours') - clock_timestamp()) / 3600", pin
        )
        assert 1.9 < hours <= 2
        for ttl in ("0", "-1 minute", "8 days"):
            with pytest.raises(psycopg.errors.InvalidParameterValue):
                _rows(holder, "select thermocline.renew_pin(%s, %s)", pin, ttl)
        assert _rows(holder, "select thermocline.release_pin(%s)", pin) == [(True,)]
        assert _rows(holder, "select thermocline.release_pin(%s)", pin) == [(False,)]
        ((again,),) = _rows(holder, "select id from thermocline.pin('public_all.events')")
        assert _rows(operator, "select thermocline.release_pin(%s)", again) == [(True,)]


@pytest.mark.conforms("C-078")
def test_a_role_taken_by_set_role_counts_and_a_definer_function_does_not_lend_its_rights(
    tiered: Spanning, roles: tuple[str, str]
) -> None:
    with (
        closing(connect(tiered.dsn, autocommit=True)) as superuser,
        closing(connect(roles[1], autocommit=True)) as other,
    ):
        reader = psycopg.conninfo.conninfo_to_dict(roles[0])["user"]
        superuser.execute(sql.SQL("set role {}").format(sql.Identifier(str(reader))))
        ((pin,),) = _rows(superuser, "select id from thermocline.pin('public_all.events')")
        superuser.execute("reset role")
        assert _rows(superuser, "select holder from thermocline.read_pins where id = %s", pin) == [(reader,)]
        superuser.execute(
            "create function public.lend(bigint) returns boolean language sql security definer as 'select "
            "thermocline.release_pin($1)'"
        )
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            _rows(other, "select public.lend(%s)", pin)
        superuser.execute("drop function public.lend")
        assert _rows(superuser, "select thermocline.release_pin(%s)", pin) == [(True,)]


@pytest.mark.conforms("C-079")
def test_a_dead_pin_is_swept_and_counted_and_a_forgotten_one_never_holds_up_folding(tiered: Spanning) -> None:
    with closing(connect(tiered.dsn, autocommit=True)) as conn:
        ((forgotten, *_),), ((dead, *_),) = _rows(conn, PIN, "1 hour"), _rows(conn, PIN, "1 microsecond")
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="is dead"):
            _rows(conn, "select thermocline.renew_pin(%s)", dead)
        counted = read_swept(conn).get(tiered.name, 0)
        tiered.both("update events set v = v + 1 where id between 30 and 40")
        report = tiered.fold()
        assert (report.rows, report.left) == (11, 0)
        assert sweep_pins(conn) == 1
        assert (read_swept(conn)[tiered.name], [pin.id for pin in read_pins(conn)]) == (counted + 1, [forgotten])
        assert [pin.is_superseded for pin in read_pins(conn)] == [True]
        _rows(conn, PIN, "1 microsecond")
        assert Worker(tiered.dsn, tiered.settings).run_cycle(conn)
        assert read_swept(conn)[tiered.name] == counted + 2
        assert _rows(conn, "select thermocline.release_pin(%s)", forgotten) == [(True,)]
    tiered.assert_same_rows()


def test_the_command_lists_pins_and_releases_them(tiered: Spanning) -> None:
    with closing(connect(tiered.dsn, autocommit=True)) as conn:
        ((pin, snapshot, *_),) = _rows(conn, PIN, "1 hour")
    command = [sys.executable, "-m", "thermocline", "pins", "--dsn", tiered.dsn, "--json"]
    (shown,) = json.loads(subprocess.run([*command, "public.events"], check=True, capture_output=True).stdout)
    assert (shown["id"], shown["table"], shown["snapshot_id"], shown["holder"]) == (
        pin,
        "public.events",
        snapshot,
        "postgres",
    )
    assert shown["holds_back"] == "nothing yet: it is the published snapshot"
    released = json.loads(subprocess.run([*command, "--release", str(pin)], check=True, capture_output=True).stdout)
    assert released == {"pin": pin, "released": True}
    assert json.loads(subprocess.run(command, check=True, capture_output=True).stdout) == []


@pytest.mark.conforms("C-059", "C-160")
def test_a_partition_is_dropped_when_no_pin_reads_it_from_the_heap(make_spanning: Callable[..., Spanning]) -> None:
    """The reader took T with its pin, and reads from the heap what lay above it; later pins read it from the lake."""
    spanning = make_spanning()
    ((pin, snapshot, _, t),) = _rows(spanning.seam, PIN, "10 minutes")
    assert snapshot is None
    report = spanning.tier()
    assert len(report.moved) == 3
    assert report.dropped == []
    assert all(f"pin {pin} of postgres, until " in said and "may still read it" in said for said in report.deferred)
    above = f"select count(*) from public.events where thermocline.axis(ts) >= {t}"
    assert _rows(spanning.seam, above) == [(400,)]
    ((later, *_),) = _rows(spanning.seam, PIN, "10 minutes")
    assert spanning.tier().dropped == []
    assert _rows(spanning.seam, "select thermocline.release_pin(%s)", pin) == [(True,)]
    assert len(spanning.tier().dropped) == 3
    spanning.assert_same_rows()
    assert _rows(spanning.seam, "select thermocline.release_pin(%s)", later) == [(True,)]
