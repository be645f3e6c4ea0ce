"""Where no event trigger watches, a change of columns takes the seam along; the next cycle makes it again, with all
that was granted and said on it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest
from tests.e2e.schema_change_table import settle, write_everywhere
from tests.twin import Spanning, run

TRIGGERS = ("alter_start", "alter_end", "type_end", "guard", "partition_end", "rewrite")
SEAM = "public_all.events"
GRANTS = """
select distinct case a.grantee when 0 then 'public' else pg_get_userbyid(a.grantee) end, a.privilege_type,
       a.is_grantable, x.attname
  from (select c.relacl as acl, null::name as attname, c.relowner from pg_class c where c.oid = '{0}'::regclass
        union all
        select v.attacl, v.attname, c.relowner from pg_class c join pg_attribute v on v.attrelid = c.oid
         where c.oid = '{0}'::regclass and not v.attisdropped) x
 cross join lateral aclexplode(x.acl) a
 where a.grantee <> x.relowner
 order by 1, 2, 4
"""


@pytest.fixture
def roles(changing: Spanning) -> Iterator[tuple[str, str]]:
    """A reader and a writer; the event triggers of this database are gone, as where no superuser ran `init`."""
    names = (f"reader_{uuid.uuid4().hex[:8]}", f"writer_{uuid.uuid4().hex[:8]}")
    for name in names:
        changing.seam.execute(f"create role {name}".encode())
    for trigger in TRIGGERS:
        changing.seam.execute(f"drop event trigger thermocline_{trigger}".encode())
    yield names
    changing.seam.execute("reset role")
    changing.seam.execute(f"drop owned by {', '.join(names)} cascade; drop role {', '.join(names)}".encode())


def _grant(spanning: Spanning, reader: str, writer: str) -> None:
    """Rights on heap and seam and on columns of them, with and without grant option, handed on, and everybody's."""
    both = f"public.events, {SEAM}"
    for statement in (
        f"grant select on {both} to {reader} with grant option",
        f"grant update (v, note), insert (id, doc) on {both} to {writer} with grant option",
        f"grant delete on {both} to {writer}",
        f"grant select (id, ts) on {both} to public",
        f"comment on view {SEAM} is 'what happened, all of it'",
        f"comment on column {SEAM}.rate is 'per second'",
        f"set role {reader}",
        f"grant select on {both} to {writer}",
        "reset role",
    ):
        spanning.seam.execute(statement.encode())


def _said(spanning: Spanning) -> list[tuple[object, ...]]:
    return spanning.query(
        f"select pg_get_userbyid(c.relowner), obj_description(c.oid), col_description(c.oid, v.attnum)"
        f" from pg_class c join pg_attribute v on v.attrelid = c.oid and v.attname = 'rate'"
        f" where c.oid = '{SEAM}'::regclass"
    )


@pytest.mark.conforms("C-047", "O-117")
def test_a_column_dropped_by_cascade_leaves_every_grant_and_comment_of_the_seam(
    changing: Spanning, roles: tuple[str, str]
) -> None:
    reader, writer = roles
    _grant(changing, reader, writer)
    changing.tier()
    before, said = changing.query(GRANTS.format(SEAM)), _said(changing)
    with pytest.raises(psycopg.errors.DependentObjectsStillExist):
        changing.alter("drop column doc")
    changing.alter("drop column doc cascade")
    assert changing.query(f"select to_regclass('{SEAM}')") == [(None,)]
    changing.tier()
    assert changing.query(GRANTS.format(SEAM)) == [grant for grant in before if grant[3] != "doc"]
    assert len(before) == 9
    assert _said(changing) == said
    write_everywhere(changing, "v = 3", 0)
    for role, statement, state in (
        (reader, f"select count(*) from {SEAM}", "00000"),
        (reader, f"update {SEAM} set v = v", "42501"),
        (writer, f"update {SEAM} set note = note where id = 4", "00000"),
        (writer, f"update {SEAM} set code = code where id = 4", "42501"),
    ):
        changing.seam.execute(f"set role {role}".encode())
        assert run(changing.seam, statement).state == state, statement
        changing.seam.execute("reset role")
    settle(changing)


@pytest.mark.parametrize(
    "changes",
    [
        ("rename column note to remark", "drop column doc cascade"),
        ("drop column note cascade", "add column note text default 'again'"),
        ("alter column v type bigint",),
        ("add column extra integer",),
    ],
    ids=["renamed", "added again", "retyped", "added"],
)
def test_other_changes_of_a_seam_that_is_gone_keep_the_rights_on_the_same_columns(
    changing: Spanning, roles: tuple[str, str], changes: tuple[str, ...]
) -> None:
    _grant(changing, *roles)
    changing.tier()
    names = "select attnum, attname from pg_attribute where attrelid = 'public.events'::regclass and not attisdropped"
    before, had = changing.query(GRANTS.format(SEAM)), dict(changing.query(names))
    changing.seam.execute(f"drop view {SEAM}".encode())
    for change in changes:
        changing.alter(change)
    changing.tier()
    has = dict(changing.query(names))
    now = {had[number]: has.get(number) for number in had}
    expected = [(*grant[:3], now.get(grant[3])) for grant in before if grant[3] is None or now.get(grant[3])]
    assert sorted(changing.query(GRANTS.format(SEAM)), key=repr) == sorted(expected, key=repr)
    settle(changing)


def test_a_role_that_is_gone_and_a_seam_that_was_never_noted_keep_nobody_from_making_it_again(
    changing: Spanning, roles: tuple[str, str]
) -> None:
    """As in a database of an earlier release: the heap's grants are those that registration would copy."""
    reader, writer = roles
    gone = f"gone_{uuid.uuid4().hex[:8]}"
    changing.seam.execute(f"create role {gone}; grant select on {SEAM}, public.events to {gone}, {reader}".encode())
    changing.tier()
    changing.seam.execute(f"drop owned by {gone}; drop role {gone}".encode())
    changing.alter("drop column doc cascade")
    changing.tier()
    assert changing.query(GRANTS.format(SEAM)) == [(reader, "SELECT", False, None)]
    changing.seam.execute(
        f"revoke select on public.events from {reader}; grant select on public.events to {writer};"
        f" grant truncate on public.events to {writer}".encode()
    )
    changing.seam.execute("update thermocline.tables set seam_extras = null")
    changing.alter("drop column small cascade")
    changing.tier()
    assert changing.query(GRANTS.format(SEAM)) == [(writer, "SELECT", False, None)]
    settle(changing)


def test_a_view_on_the_seam_outlives_what_postgres_lets_through_without_cascade(
    changing: Spanning, roles: tuple[str, str]
) -> None:
    reader, _ = roles
    changing.seam.execute(f"create view public.recent as select id, ts, v from {SEAM}".encode())
    changing.seam.execute(f"grant select on public.recent to {reader}; grant select on {SEAM} to {reader}".encode())
    before = changing.query("select * from public.recent order by id")
    changing.alter("add column extra integer default 3")
    changing.alter("rename column note to remark")
    changing.tier()
    assert changing.query("select * from public.recent order by id") == before
    assert changing.query(GRANTS.format(SEAM)) == [(reader, "SELECT", False, None)]
    changing.assert_same_rows()


@pytest.mark.conforms("O-117")
def test_a_right_that_was_revoked_before_the_seam_was_dropped_does_not_come_back(
    changing: Spanning, roles: tuple[str, str]
) -> None:
    """The last cycle noted it; what happened on the seam between that note and its drop nobody saw."""
    reader, writer = roles
    both = f"public.events, {SEAM}"
    changing.seam.execute(f"grant select, update (v) on {both} to {reader}, {writer} with grant option".encode())
    changing.seam.execute(f"grant delete on {SEAM} to {writer}".encode())
    changing.tier()
    changing.seam.execute(f"revoke all on {both} from {reader}; revoke all (v) on {both} from {reader}".encode())
    changing.seam.execute(f"revoke grant option for select on {both} from {writer}".encode())
    changing.alter("drop column doc cascade")
    changing.tier()
    assert changing.query(GRANTS.format(SEAM)) == [
        (writer, "SELECT", False, None),
        (writer, "UPDATE", True, "v"),
    ]
    ((said,),) = changing.query("select sentence from thermocline.events where sentence like '%dropped, and is made%'")
    assert str(said).endswith(
        f"without rights that their holders do not have on the table: SELECT of {reader}, UPDATE (v) of {reader}, "
        f"DELETE of {writer}. Grant them again where they are meant."
    )
    settle(changing)
