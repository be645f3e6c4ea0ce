"""A lake login reads what its role may SELECT in Postgres, at published or pinned snapshots, with the types that our
own foreign table declares."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import generators, pq, sql
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from thermocline.gateway.wire.scram import make_verifier

EVENTS = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "note", StringType(), required=False),
)
READ = "select id, note from public.{} where _snapshot = {}"
LoginOf = Callable[[str], psycopg.Connection[Any]]


def _rows(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "note": [f"note {number % 7}" for number in ids]})


@pytest.fixture
def roles(site: Any) -> Iterator[dict[str, str]]:
    """Two table owners and a role with nothing, each with a login at the gateway; by what they are."""
    names = {kind: f"{kind}_{uuid.uuid4().hex[:8]}" for kind in ("owner", "other", "nobody")}
    for name in names.values():
        site.conn.execute(sql.SQL("create role {}").format(sql.Identifier(name)))
        site.conn.execute(
            "insert into thermocline.gateway_logins (name, verifier) values (%s, %s)", (name, make_verifier("secret"))
        )
    yield names
    for name in names.values():
        site.conn.execute(sql.SQL("drop owned by {} cascade").format(sql.Identifier(name)))
        site.conn.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


@pytest.fixture
def login(site: Any, roles: dict[str, str]) -> Iterator[LoginOf]:
    opened = []

    def log_in(kind: str) -> psycopg.Connection[Any]:
        conn = psycopg.connect(site.direct_dsn(user=roles[kind], password="secret"), autocommit=True)
        opened.append(conn)
        return conn

    yield log_in
    for conn in opened:
        conn.close()


@pytest.fixture
def snapshots(site: Any, roles: dict[str, str]) -> dict[str, int]:
    """The published snapshots of the tables `mine` (of the owner) and `theirs` (of the other)."""
    made = {}
    for name, owner in (("mine", "owner"), ("theirs", "other")):
        site.lake.create(name, EVENTS)
        site.conn.execute(f"create table public.{name} (id bigint, note text)")
        site.conn.execute(sql.SQL("alter table {} owner to {}").format(_id(name), _id(roles[owner])))
        site.lake.bind_heap(name, "public." + name)
        site.lake.foreign_table(name, "id bigint, note text")
        made[name] = site.lake.append(name, _rows(0, 3))
    return made


def _id(*names: str) -> sql.Identifier:
    return sql.Identifier(*names)


def _denied(conn: psycopg.Connection[Any], statement: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute(statement.encode())


def _wait_for_fresh_rights() -> None:
    """Rights are cached for a second."""
    time.sleep(1.2)


@pytest.mark.conforms("O-171")
def test_a_lake_login_reads_its_own_table_and_nobody_elses(login: LoginOf, snapshots: dict[str, int]) -> None:
    owner, other, nobody = login("owner"), login("other"), login("nobody")
    mine, theirs = (READ.format(name, snapshots[name]) for name in ("mine", "theirs"))
    assert len(owner.execute(mine.encode()).fetchall()) == 3
    assert len(other.execute(theirs.encode()).fetchall()) == 3
    for conn, statement in ((owner, theirs), (other, mine), (nobody, mine), (nobody, theirs)):
        _denied(conn, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "select count(*) from public.theirs where _snapshot = {theirs}",
        "select null from public.theirs where _snapshot = {theirs}",
        "select m.id from public.mine m join public.theirs t on t.id = m.id"
        " where m._snapshot = {mine} and t._snapshot = {theirs}",
        "explain select id from public.theirs",
        "explain select id from public.theirs where _snapshot = {theirs}",
        "select pg_catalog.pg_relation_size('public.theirs'::pg_catalog.regclass) / 8192",
        "copy (select id from public.theirs where _snapshot = {theirs}) to stdout",
        "begin; declare c1 cursor for select id from public.theirs where _snapshot = {theirs}",
    ],
)
def test_every_statement_of_a_lake_login_asks_for_the_right(
    login: LoginOf, snapshots: dict[str, int], statement: str
) -> None:
    _denied(login("owner"), statement.format(**snapshots))


def test_a_prepared_statement_is_denied_when_it_is_described_and_when_it_runs(
    login: LoginOf, snapshots: dict[str, int]
) -> None:
    pgconn = (conn := login("owner")).pgconn

    def sqlstate(send: Callable[[], None]) -> bytes | None:
        send()
        found: bytes | None = conn.wait(generators.execute(pgconn))[-1].error_field(pq.DiagnosticField.SQLSTATE)
        return found

    statement = b"select id from public.theirs where _snapshot = $1"
    assert sqlstate(lambda: pgconn.send_prepare(b"named", statement)) is None
    assert sqlstate(lambda: pgconn.send_describe_prepared(b"named")) == b"42501"
    values = [str(snapshots["theirs"]).encode()]
    assert sqlstate(lambda: pgconn.send_query_prepared(b"named", values)) == b"42501"


def test_granted_columns_are_read_and_others_are_not(
    site: Any, login: LoginOf, roles: dict[str, str], snapshots: dict[str, int]
) -> None:
    site.conn.execute(sql.SQL("grant select (id) on public.mine to {}").format(_id(roles["nobody"])))
    nobody, at = login("nobody"), snapshots["mine"]
    for statement in (
        "select id from public.mine where _snapshot = {}",
        "select count(*) from public.mine where _snapshot = {}",
    ):
        assert nobody.execute(statement.format(at).encode()).fetchall()
    for statement in (
        READ.format("mine", at),
        f"select * from public.mine where _snapshot = {at}",
        f"select mine from public.mine where _snapshot = {at}",
        f"select m from public.mine m where _snapshot = {at}",
        f"select m.* from public.mine m where _snapshot = {at}",
        f"select id from public.mine where _snapshot = {at} and note = 'note 1'",
        f"select id from public.mine where _snapshot = {at} and length(note) > 2",
        f"select count(note) from public.mine where _snapshot = {at}",
        f"select id from public.mine where _snapshot = {at} order by note",
    ):
        _denied(nobody, statement)


@pytest.mark.conforms("O-171")
def test_a_grant_and_a_revoke_are_seen_within_seconds(
    site: Any, login: LoginOf, roles: dict[str, str], snapshots: dict[str, int]
) -> None:
    nobody, statement = login("nobody"), READ.format("mine", snapshots["mine"])
    _denied(nobody, statement)
    site.conn.execute(sql.SQL("grant select on public.mine to {}").format(_id(roles["nobody"])))
    _wait_for_fresh_rights()
    assert len(nobody.execute(statement.encode()).fetchall()) == 3
    site.conn.execute(sql.SQL("revoke select on public.mine from {}").format(_id(roles["nobody"])))
    _wait_for_fresh_rights()
    _denied(nobody, statement)


def test_rights_come_with_membership(
    site: Any, login: LoginOf, roles: dict[str, str], snapshots: dict[str, int]
) -> None:
    site.conn.execute(sql.SQL("grant {} to {}").format(_id(roles["owner"]), _id(roles["nobody"])))
    assert len(login("nobody").execute(READ.format("mine", snapshots["mine"]).encode()).fetchall()) == 3


def test_a_login_without_its_role_reads_nothing(site: Any, snapshots: dict[str, int]) -> None:
    site.conn.execute(
        "insert into thermocline.gateway_logins (name, verifier) values ('no_such_role', %s)",
        (make_verifier("secret"),),
    )
    with closing(psycopg.connect(site.direct_dsn(user="no_such_role", password="secret"), autocommit=True)) as ghost:
        _denied(ghost, READ.format("mine", snapshots["mine"]))


def test_a_login_is_the_role_it_was_made_for_and_no_later_one_of_its_name(
    site: Any, login: LoginOf, roles: dict[str, str], snapshots: dict[str, int]
) -> None:
    site.conn.execute(
        "update thermocline.gateway_logins l set role_oid = r.oid from pg_roles r where r.rolname = l.name"
    )
    was, renamed = roles["owner"], roles["owner"] + "_renamed"
    site.conn.execute(sql.SQL("alter role {} rename to {}").format(_id(was), _id(renamed)))
    site.conn.execute(sql.SQL("create role {}").format(_id(was)))
    try:
        statement = READ.format("mine", snapshots["mine"])
        assert len(login("owner").execute(statement.encode()).fetchall()) == 3
        site.conn.execute(sql.SQL("grant select on public.mine to {}").format(_id(was)))
        site.conn.execute(sql.SQL("revoke select on public.mine from {}").format(_id(renamed)))
        _wait_for_fresh_rights()
        _denied(login("owner"), statement)
    finally:
        site.conn.execute(sql.SQL("drop owned by {} cascade").format(_id(renamed)))
        site.conn.execute(sql.SQL("drop role {}").format(_id(renamed)))


@pytest.mark.conforms("O-171")
def test_only_published_or_pinned_snapshots_are_served(
    site: Any, login: LoginOf, roles: dict[str, str], snapshots: dict[str, int]
) -> None:
    second, third = site.lake.append("mine", _rows(3, 2)), site.lake.append("mine", _rows(5, 2))
    owner = login("owner")
    for at, rows in ((snapshots["mine"], 3), (second, 5), (third, 7)):
        assert len(owner.execute(READ.format("mine", at).encode()).fetchall()) == rows
    site.conn.execute("delete from thermocline.published where snapshot_id = %s", (second,))
    _wait_for_fresh_rights()
    for conn in (owner, site.conn):
        with pytest.raises(psycopg.Error, match=f"has no snapshot {second}") as refused:
            conn.execute(
                READ.format("mine", second).replace("public.", "public." if conn is owner else "thermocline_lake.")
            )
        assert refused.value.sqlstate == "55000"
    pin = (
        "insert into thermocline.read_pins (table_id, snapshot_id, t, holder, expires_at)"
        " select id, %s, 0, 'test', now() + %s::interval from thermocline.tables where table_name = 'mine'"
    )
    site.conn.execute(pin, (second, "-1 second"))
    with pytest.raises(psycopg.Error, match=f"has no snapshot {second}"):
        owner.execute(READ.format("mine", second).encode())
    site.conn.execute(pin, (second, "1 hour"))
    assert len(owner.execute(READ.format("mine", second).encode()).fetchall()) == 5


def test_a_foreign_table_of_ones_own_changes_no_types(
    site: Any, login: LoginOf, roles: dict[str, str], snapshots: dict[str, int]
) -> None:
    """A foreign table that names another's lake table once declared its columns too."""
    statement, other = READ.format("theirs", snapshots["theirs"]), login("other")
    before = other.execute(statement.encode())
    types, rows = [column.type_code for column in before.description or ()], before.fetchall()
    site.conn.execute(sql.SQL("grant usage on foreign server thermocline_gateway to {}").format(_id(roles["owner"])))
    site.conn.execute(sql.SQL("create schema authorization {}").format(_id(roles["owner"])))
    for declared in ("id text, note xml", "id numeric, note varchar(2)"):
        site.conn.execute(
            sql.SQL(
                "create foreign table {} ({}, _snapshot bigint) server thermocline_gateway"
                " options (schema_name 'public', table_name 'theirs')"
            ).format(_id(roles["owner"], f"t{len(declared)}"), sql.SQL(declared))
        )
    _read_table_anew(site)
    after = login("other").execute(statement.encode())
    assert ([column.type_code for column in after.description or ()], after.fetchall()) == (types, rows)


def _read_table_anew(site: Any) -> None:
    """EXPLAIN reads a table's columns again."""
    site.conn.execute("analyze thermocline_lake.theirs")


def test_analyze_and_estimates_run_with_the_rights_of_the_foreign_tables_owner(
    site: Any, roles: dict[str, str], snapshots: dict[str, int]
) -> None:
    site.conn.execute("analyze thermocline_lake.mine")
    site.conn.execute("alter foreign table thermocline_lake.mine options (add use_remote_estimate 'true')")
    plan = site.conn.execute(f"explain select * from thermocline_lake.mine where _snapshot = {snapshots['mine']}")
    assert "Foreign Scan" in plan.fetchall()[0][0]
