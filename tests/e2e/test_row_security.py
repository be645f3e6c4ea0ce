"""Row-level security that is enabled on the heap after registration: the seam refuses, whatever snapshot the reader has
and whether or not event triggers watch; it never shows a row that a policy hides."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.cloned_tables import ClonableTable, make_clonable
from tests.twin import Spanning

from thermocline.errors import HeapChanged
from thermocline.runtime.postgres_server import PostgresServer

ENABLED = """
alter event trigger thermocline_alter_start disable;
alter event trigger thermocline_alter_end disable;
alter event trigger thermocline_guard disable;
alter table public.events enable row level security;
create policy odd_ones on public.events using (id % 2 = 1);
"""
HOT = "select id from public_all.events where ts >= '2026-04-01'"
COLD = "select id from public_all.events where ts < '2026-02-01'"
DELTA = "select id from public_all.events where id = 17"
WHOLE = "select count(*), sum(v) from public_all.events"
LEAKING = "select id from public_all.events where leak(note)"
STATEMENTS = (
    HOT,
    COLD,
    DELTA,
    WHOLE,
    LEAKING,
    "delete from public_all.events where id = 17",
    f"explain analyze {WHOLE}",
)


@pytest.fixture(scope="module")
def tiered(
    postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClonableTable]:
    """January to March in the lake, April in the heap."""
    with make_clonable(postgres, template, tmp_path_factory.mktemp("row_security")) as made:
        yield made


@pytest.fixture
def spanning(tiered: ClonableTable) -> Iterator[Spanning]:
    """A reader `guest` with SELECT and DELETE on both names, and a correction in the delta."""
    with tiered.clone() as made:
        made.seam.execute("update events set note = 'corrected' where id = 17")
        made.seam.execute("create role guest login password 'g'")
        made.seam.execute("grant select, delete on public.events, public_all.events to guest")
        made.seam.execute("grant create on schema public to guest")
        try:
            yield made
        finally:
            made.seam.execute("drop owned by guest; drop role guest")


def _guest(spanning: Spanning, port: int | None = None) -> psycopg.Connection[Any]:
    dsn = spanning.dsn if port is None else make_conninfo(spanning.dsn, host="127.0.0.1", port=port)
    conn = psycopg.connect(dsn, user="guest", password="g", autocommit=True)
    conn.execute(
        "create or replace function public.leak(note text) returns boolean language plpgsql cost 0.0001 as"
        " $$ begin raise warning 'leaked %', note; return true; end $$"
    )
    return conn


def _refused(conn: psycopg.Connection[Any], statement: str) -> None:
    heard: list[str] = []

    def hear(told: psycopg.errors.Diagnostic) -> None:
        heard.extend(text for text in [told.message_primary or ""] if text.startswith("leaked"))

    conn.add_notice_handler(hear)
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"), conn.transaction():
        conn.execute(statement.encode())
    conn.remove_notice_handler(hear)
    assert heard == []


@pytest.mark.conforms("O-118")
@pytest.mark.parametrize("through_gateway", [False, True], ids=["postgres", "gateway"])
def test_enabled_later_makes_the_seam_refuse_also_under_an_older_snapshot(
    spanning: Spanning, *, through_gateway: bool
) -> None:
    port = spanning.gateway.port if through_gateway else None
    with closing(_guest(spanning, port)) as fresh, closing(_guest(spanning, port)) as older:
        counted = older.execute(WHOLE.encode()).fetchall()
        # Its snapshot is from before; a lock on the table would keep the change waiting.
        older.execute("begin isolation level repeatable read; select 1")
        spanning.seam.execute(ENABLED)
        for conn in (fresh, older):
            for statement in STATEMENTS:
                _refused(conn, statement)
        older.execute("commit")
        spanning.seam.execute("alter table public.events disable row level security")
        assert fresh.execute(WHOLE.encode()).fetchall() == counted


def test_the_lake_login_is_refused_whoever_it_is(spanning: Spanning) -> None:
    spanning.seam.execute(ENABLED)
    time.sleep(1.2)  # the gateway caches its answer for a second; the seam itself asks each time
    for statement in (COLD, "analyze thermocline_lake.public__events"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            spanning.seam.execute(statement.encode())
    spanning.seam.rollback()
    assert spanning.query(HOT)
    with pytest.raises(HeapChanged, match="row-level security"):
        spanning.tier()


def test_a_joined_table_is_read_with_its_policies_under_an_older_snapshot(spanning: Spanning) -> None:
    spanning.seam.execute("create table public.secret (id bigint); insert into public.secret values (17), (18)")
    spanning.seam.execute("grant select on public.secret to guest")
    counted = "select count(*) from public_all.events e join public.secret s on s.id = e.id"
    with closing(_guest(spanning, spanning.gateway.port)) as older:
        assert older.execute(counted.encode()).fetchone() == (2,)
        older.execute("begin isolation level repeatable read; select 1")
        spanning.seam.execute("alter table public.secret enable row level security")
        spanning.seam.execute("create policy one on public.secret using (id = 17)")
        assert older.execute(counted.encode()).fetchone() == (1,)
