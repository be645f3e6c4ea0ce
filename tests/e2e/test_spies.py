"""No code that a table's owner planted runs with more rights than the owner's, whatever verb is run by whom."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.e2e.adoption import unregister_spanning
from tests.spies import BEFORE_THE_TABLE, ON_OUR_OBJECTS, ON_THE_TABLE, ROWS, TABLE, SpyLog, plant
from tests.twin import EVENTS_PARTITIONS, Spanning

from thermocline.maintain.context import PassRequest
from thermocline.maintain.run_pass import run_pass
from thermocline.ops.admin.init_database import init_database
from thermocline.ops.admin.places import WantedPlaces
from thermocline.ops.verify.verify_table import verify
from thermocline.runtime.pg import connect_as_typed
from thermocline.runtime.postgres_server import PostgresServer


@pytest.fixture
def planter(database: str) -> Iterator[str]:
    name = f"planter_{uuid.uuid4().hex[:8]}"
    with connect_as_typed(database, autocommit=True) as conn:
        conn.execute(f"create role {name} login password 'secret'; grant all on schema public to {name}".encode())
        yield name
        conn.execute(f"drop owned by {name} cascade; drop role {name}".encode())


_READ_BY_THE_WORKER = {"index predicate"}
"""To plan a query of the heap is enough: Postgres simplifies the predicates of its indexes."""

_DOMAINS = {"domain check", "domain check inside a composite", "domain check inside a range"}

DESCRIBED = """
select 'owner ' || pg_get_userbyid(relowner) from pg_class where oid = 'thermocline_delta.public__events'::regclass
union all (select 'column ' || attname from pg_attribute where attrelid = 'thermocline_delta.public__events'::regclass
              and attnum > 0 and not attisdropped order by attnum)
union all select 'default' from pg_attrdef where adrelid = 'thermocline_delta.public__events'::regclass
union all (select pg_get_constraintdef(oid) from pg_constraint
            where conrelid = 'thermocline_delta.public__events'::regclass and contype <> 'n' order by 1)
union all select indexrelid::regclass::text from pg_index
           where indrelid = 'thermocline_delta.public__events'::regclass
union all select tgname from pg_trigger where tgrelid = 'thermocline_delta.public__events'::regclass
union all select rulename from pg_rewrite where ev_class = 'thermocline_delta.public__events'::regclass
union all select polname from pg_policy where polrelid = 'thermocline_delta.public__events'::regclass
union all select stxname from pg_statistic_ext where stxrelid = 'thermocline_delta.public__events'::regclass
union all select 'child' from pg_inherits where inhparent = 'thermocline_delta.public__events'::regclass
union all select 'row security' from pg_class where oid = 'thermocline_delta.public__events'::regclass
             and relrowsecurity
union all select 'acl ' || coalesce(relacl::text, '') from pg_class
           where oid = 'thermocline_delta.public__events'::regclass
"""

OPEN: dict[str, set[str]] = {
    "tier": _READ_BY_THE_WORKER,
    "fold": {
        *_READ_BY_THE_WORKER,
        "domain check inside a composite",
        "row trigger on the heap",
        "after row trigger on the heap",
        "row trigger on the spill",
        "statement trigger on the spill",
    },
    "tier again": _READ_BY_THE_WORKER | {"domain check inside a composite"},
    "verify": _READ_BY_THE_WORKER | _DOMAINS,
    "gateway": _READ_BY_THE_WORKER,
    "restore": {
        *_READ_BY_THE_WORKER,
        *_DOMAINS,
        "generated column",
        "check of the heap",
        "index expression",
        "row trigger on the heap",
        "after row trigger on the heap",
        "statement trigger on the heap",
    },
}
"""What a worker or a gateway that is a superuser still runs as itself, by verb, until the owner's login does it
(decision 0043). Everything that an owner does itself, the event triggers and functions included, is closed."""


@pytest.mark.conforms("O-116")
def test_no_planted_code_runs_with_more_rights_than_its_planters(
    postgres: PostgresServer, database: str, planter: str, make_spanning: Callable[..., Spanning]
) -> None:
    as_planter = connect_as_typed(make_conninfo(database, user=planter, password="secret"), autocommit=True)
    assert plant(as_planter, BEFORE_THE_TABLE) == []
    owned = "".join(
        f"alter table public.{name} owner to {planter};"
        for name in ("events", "events_2026_01", "events_2026_02", "events_2026_03", "events_2026_04")
    )
    log = SpyLog(postgres.log_path, planter)
    spanning = make_spanning(
        table=TABLE, rows=ROWS, partitions=EVENTS_PARTITIONS + owned + ";".join(ON_THE_TABLE), premake=2
    )
    init_database(spanning.dsn, WantedPlaces(warehouse=None, gateway=None, first_warehouse="", first_gateway=""))
    ((spill,),) = spanning.query("select pg_catalog.format('%I.%I', spill_schema, spill_name) from thermocline.tables")
    refused = plant(as_planter, ON_OUR_OBJECTS, spill)
    assert [line for line in refused if "must be owner" not in line and "permission denied" not in line] == []
    assert len(refused) == 6  # nothing can be planted on the delta
    as_planter.execute("set search_path = public_all, public")
    above = {}

    def run(verb: str, action: Callable[[], object]) -> None:
        log.read_above()
        try:
            action()
        except Exception as problem:  # planted code may break the verb; what counts is as whom it ran
            print(verb, "failed:", type(problem).__name__, str(problem)[:300])
        if seen := log.read_above():
            above[verb] = set(seen)
            print(verb, seen)

    def write() -> None:
        for statement in (
            "update events set v = v + 1 where id in (2, 3, 39)",
            "insert into events (id, ts, v, price, m) values (900, '2025-06-01', 5, 1, 'ok')",
            "insert into events (id, ts, v, price, m) values (901, '2026-06-20', 5, 1, 'ok')",
            "delete from events where id = 4",
            'select thermocline.upsert(\'public.events\', \'{"id": 902, "ts": "2026-01-03", "v": 3, "m": "ok"}\')',
            'select thermocline.delete(\'public.events\', \'{"id": 902, "ts": "2026-01-03"}\')',
        ):
            as_planter.execute(statement.encode())

    run("analyze", lambda: as_planter.execute("analyze public.events_2026_04"))
    run("tier", spanning.tier)
    run("seam DML", write)
    run("as_of", lambda: as_planter.execute("select * from thermocline.as_of('public.events', now())"))
    run("add column", lambda: as_planter.execute("alter table public.events add column more public.amount default 7"))
    run(
        "add column of a composite",
        lambda: as_planter.execute("alter table public.events add column pair2 public.pair default '(1,x)'"),
    )
    run(
        "attach below T",
        lambda: as_planter.execute(
            "create table public.old (like public.events including all);"
            "insert into public.old (id, ts, v) values (950, '2025-01-05', 1);"
            "alter table public.events attach partition public.old for values from ('2025-01-01') to ('2025-02-01')"
        ),
    )
    run("fold", spanning.fold)
    run("tier again", spanning.tier)
    run(
        "maintain",
        lambda: run_pass(
            spanning.dsn, spanning.name, settings=spanning.settings, spark=spanning.spark, request=PassRequest()
        ),
    )
    run("verify", lambda: verify(spanning.dsn, spanning.name))

    def query_gateway() -> None:
        dsn = make_conninfo(database, user=planter, password="secret", port=spanning.gateway.port)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("select count(*), sum(v) from public_all.events")
            conn.execute("select * from public_all.events where ts < '2026-03-01'")
            conn.execute("select id, price::public.amount, '7'::public.amount from public_all.events where m = 'sad'")

    run("gateway", query_gateway)
    run("truncate", lambda: as_planter.execute("truncate public.events"))
    run("restore", lambda: unregister_spanning(spanning, restore_heap=True))
    as_planter.close()
    assert len(log.places) >= 20
    assert above == OPEN


@pytest.mark.conforms("O-116")
def test_what_an_earlier_owner_put_on_a_delta_goes_when_the_delta_is_taken_over(
    database: str, planter: str, make_spanning: Callable[..., Spanning]
) -> None:
    spanning = make_spanning()
    conn = spanning.session(autocommit=True)
    delta = "thermocline_delta.public__events"
    before = conn.execute(DESCRIBED.encode()).fetchall()
    conn.execute(f"alter table public.events owner to {planter}".encode())
    assert any("its seam belongs to" in note for note in spanning.tier().notes)
    conn.execute(f"alter table {delta} owner to {planter}".encode())  # as earlier releases made it
    conn.execute(f"create table public.child () inherits ({delta})".encode())
    for statement in (
        "create function public.planted() returns trigger language plpgsql as 'begin return new; end'",
        "create function public.planted_check(integer) returns boolean language sql immutable return true",
        f"create trigger planted before insert on {delta} for each row execute function public.planted()",
        f"create rule planted as on delete to {delta} do also select 1",
        f"alter table {delta} add check (public.planted_check(v)), add check (public.planted_check(_op))",
        f"create index on {delta} (public.planted_check(v))",
        f"create statistics public.planted on (public.planted_check(v)), v from {delta}",
        f"alter table {delta} add column planted boolean default public.planted_check(1)",
        f"alter table {delta} alter column note set default public.planted_check(1)::text",
        f"create policy planted on {delta} using (public.planted_check(v))",
        f"alter table {delta} enable row level security",
        f"grant trigger on {delta} to public",
    ):
        conn.execute(statement.encode())
    assert any("its delta is no longer the table owner's" in note for note in spanning.tier().notes)
    assert conn.execute(DESCRIBED.encode()).fetchall() == [
        *before[:-1],
        (f"acl {{postgres=arwdDxtm/postgres,{planter}=arwd/postgres}}",),
    ]
    spanning.both("update events set v = v + 1 where id in (3, 390) returning id, v")
    spanning.assert_same_rows()
