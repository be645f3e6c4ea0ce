"""Roles on the seam: readers need SELECT alone, and the heap's grants are followed, column grants included."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator

import psycopg
import pytest
from tests.twin import EVENTS_PARTITIONS, Spanning

from thermocline.core.health.finding import Finding
from thermocline.ops.admin.sync_grants import sync_grants
from thermocline.ops.doctor.checks import examine
from thermocline.runtime.pg import connect_as_typed as connect


@pytest.fixture
def roles(spanning: Spanning) -> Iterator[tuple[str, str]]:
    """Two roles of this test's own; roles belong to the whole server."""
    names = (f"reader_{uuid.uuid4().hex[:8]}", f"writer_{uuid.uuid4().hex[:8]}")
    with connect(spanning.dsn, autocommit=True) as conn:
        for name in names:
            conn.execute(f"create role {name}; grant usage on schema public to {name}".encode())
        yield names
        for name in names:
            conn.execute(f"drop owned by {name}; drop role {name}".encode())


def _state(spanning: Spanning, role: str, statement: str) -> str:
    conn = spanning.session()
    try:
        conn.execute(f"set role {role}".encode())
        conn.execute(statement.encode())
        return "00000"
    except psycopg.Error as problem:
        return problem.sqlstate or "?"
    finally:
        conn.rollback()


@pytest.mark.conforms("O-115", "O-117")
def test_later_grants_and_revokes_on_the_heap_are_followed_columns_included(
    spanning: Spanning, roles: tuple[str, str]
) -> None:
    reader, writer = roles
    spanning.tier()
    heap = spanning.session("public", autocommit=True)
    heap.execute(
        (
            f"grant select (id, ts) on public.events to {reader}; grant select, insert, update on public.events "
            f"to {writer}"
        ).encode()
    )
    assert _state(spanning, reader, "select id from events") == "42501"
    assert len(sync_grants(spanning.dsn, spanning.name, dry_run=True).granted) == 5
    assert _state(spanning, reader, "select id from events") == "42501"
    assert len(sync_grants(spanning.dsn, spanning.name).granted) == 5
    for tier in ("ts < '2026-03-01'", "ts >= '2026-04-01'"):
        assert _state(spanning, reader, f"select id from events where {tier}") == "00000"
        assert _state(spanning, reader, f"select v from events where {tier}") == "42501"
        assert _state(spanning, writer, f"update events set v = 1 where {tier}") == "00000"
        assert _state(spanning, writer, f"delete from events where {tier}") == "42501"
    for hidden in (
        "thermocline_delta.public__events",
        "thermocline_lake.public__events",
        "thermocline.tables",
        "thermocline.cutline",
    ):
        assert _state(spanning, reader, f"select * from {hidden}") == "42501"
    heap.execute(
        f"revoke select (ts) on public.events from {reader}; revoke update on public.events from {writer}".encode()
    )
    report = sync_grants(spanning.dsn, spanning.name)
    assert (report.granted, report.revoked) == ((), (f"select (ts) to {reader}", f"update to {writer}"))
    assert _state(spanning, reader, "select id from events") == "00000"
    assert _state(spanning, reader, "select ts from events") == "42501"
    assert _state(spanning, writer, "update events set v = 1 where id = 5") == "42501"
    assert _state(spanning, writer, "select count(*) from events") == "00000"
    assert sync_grants(spanning.dsn, spanning.name).sentence == "public_all.events grants what public.events grants."


@pytest.mark.conforms("O-117")
def test_a_lost_grant_option_and_a_right_on_some_columns_only_are_brought_over(
    spanning: Spanning, roles: tuple[str, str]
) -> None:
    reader, writer = roles
    heap = spanning.session("public", autocommit=True)
    heap.execute(
        (
            f"grant select on public.events to {writer} with grant option; grant select on public.events to {reader}"
        ).encode()
    )
    sync_grants(spanning.dsn, spanning.name)
    heap.execute(f"revoke grant option for select on public.events from {writer} cascade".encode())
    heap.execute(
        f"revoke select on public.events from {reader}; grant select (id) on public.events to {reader}".encode()
    )
    sync_grants(spanning.dsn, spanning.name)
    acl = (
        "select relacl::text, (select attacl::text from pg_attribute where attrelid = c.oid and attname = 'id')"
        " from pg_class c where oid = '{}'::regclass"
    )
    (whole, column), (heap_whole, heap_column) = spanning.query(
        acl.format("public_all.events") + " union all " + acl.format("public.events")
    )
    assert f"{writer}=r/" in whole
    assert reader not in whole
    assert f"{reader}=r/" in column
    assert (f"{writer}=r/" in heap_whole, f"{reader}=r/" in heap_column) == (True, True)


@pytest.mark.conforms("O-117")
def test_the_command_says_what_it_changed(spanning: Spanning, roles: tuple[str, str]) -> None:
    spanning.seam.execute(f"grant select on public.events to {roles[0]}".encode())
    base = [sys.executable, "-m", "thermocline", "sync-grants", "public.events", "--json", "--dsn", spanning.dsn]
    done = subprocess.run(base, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["granted"] == [f"select to {roles[0]}"]


def test_another_owner_of_the_heap_gets_the_seam_with_the_next_cycle(changing: Spanning) -> None:
    names = [f"owner_{uuid.uuid4().hex[:8]}" for _ in range(2)]
    heap = changing.session("public", autocommit=True)
    for name in names:
        heap.execute(
            (
                f"create role {name}; grant create, usage on schema public, public_all, thermocline_delta to {name}"
            ).encode()
        )
    try:
        for change in (f"alter table public.events owner to {names[0]}", f"reassign owned by {names[0]} to {names[1]}"):
            heap.execute(change.encode())
            assert any("its seam belongs to" in note for note in changing.tier().notes)
            assert not any("its seam belongs to" in note for note in changing.fold().notes)
            changing.assert_same_rows()
            changing.both("update events set v = v + 1 where id in (3, 7, 65) returning id, v")
            changing.both("delete from events where id = 500")
            changing.both("insert into events (id, ts, v) values (500, '2025-06-01', 5)")
            changing.assert_same_rows()
        heap.execute(f"drop owned by {names[0]}".encode())
        changing.assert_same_rows()
    finally:
        heap.execute(f"drop owned by {', '.join(names)} cascade; drop role {', '.join(names)}".encode())


def test_changes_of_partitions_that_belong_to_another_role_than_the_heap_are_captured(
    make_spanning: Callable[..., Spanning],
) -> None:
    owner = f"owner_{uuid.uuid4().hex[:8]}"
    given = (
        f"create role {owner}; grant usage, create on schema public to {owner}; alter table public.events owner "
        f"to {owner};"
    )
    spanning = make_spanning(partitions=EVENTS_PARTITIONS + given, keep_heap=True)
    try:
        spanning.tier()
        heap = spanning.session("public", autocommit=True)
        heap.execute(f"set role {owner}".encode())
        for statement in (
            "update events set v = v + 1 where id in (5, 130, 390)",
            "delete from events where id in (6, 131)",
            "insert into events (id, ts, v) values (9001, '2026-01-05 00:00+00', 1)",
        ):
            heap.execute(statement.encode())
            spanning.twin.execute(statement.encode())
        spanning.assert_same_rows()
    finally:
        spanning.seam.execute(
            f"reassign owned by {owner} to postgres; drop owned by {owner}; drop role {owner}".encode()
        )


@pytest.mark.conforms("O-117")
def test_the_next_cycle_follows_grants_and_revokes_and_doctor_names_them_before(
    spanning: Spanning, roles: tuple[str, str]
) -> None:
    reader, writer = roles
    heap = spanning.session("public", autocommit=True)
    spanning.tier()
    assert _grants_finding(spanning).verdict == "ok"
    heap.execute(f"grant select on public_all.events to {writer}".encode())
    heap.execute(f"grant select on public.events to {reader}; grant update (v) on public.events to {reader}".encode())
    assert _state(spanning, reader, "select id from events") == "42501"
    assert "public.events" in _grants_finding(spanning).seen
    spanning.tier()
    assert _grants_finding(spanning).verdict == "ok"
    assert _state(spanning, reader, "select id from events") == "00000"
    assert _state(spanning, reader, "update events set v = 1 where id = 5") == "00000"
    assert _state(spanning, reader, "update events set note = '' where id = 5") == "42501"
    heap.execute(
        f"revoke select on public.events from {reader}; grant select (id) on public.events to {reader}".encode()
    )
    spanning.tier()
    assert _state(spanning, reader, "select id from events") == "00000"
    assert _state(spanning, reader, "select v from events") == "42501"
    heap.execute(f"revoke all on public.events from {reader}".encode())
    spanning.tier()
    assert _state(spanning, reader, "select id from events") == "42501"
    # What was granted on the seam itself stays.
    assert _state(spanning, writer, "select id from events") == "00000"


def _grants_finding(spanning: Spanning) -> Finding:
    return next(found for found in examine(spanning.settings) if found.check == "grants")
