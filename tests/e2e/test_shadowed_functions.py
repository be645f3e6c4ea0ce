"""Nothing of ours calls a function or an operator of `public`, whatever the database's search_path says."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.commands import run_command
from tests.e2e.adoption import unregister_spanning
from tests.e2e.truncation import truncate_spanning
from tests.shadows import count_shadow_calls, plant_shadows
from tests.twin import Spanning

from thermocline.maintain.context import PassRequest
from thermocline.maintain.run_pass import run_pass
from thermocline.ops.admin.init_database import init_database
from thermocline.ops.admin.places import WantedPlaces
from thermocline.ops.verify.verify_table import verify
from thermocline.runtime.pg import connect

# Without a CHECK: one that the user writes under this search_path means the shadows.
TABLE = """
create table {schema}.events (
    id bigint not null, ts timestamptz not null, v integer not null, note text default 'd', amount numeric(12, 2),
    tags text[], doc jsonb, primary key (id, ts)
)"""
ROWS = """
insert into events
select i, '2026-01-01 00:00+00'::timestamptz + i * interval '6 hours', i, 'a row', i / 7.0, array['a', 'b'], '{"i": 1}'
  from generate_series(1, 400) i
"""


@pytest.mark.conforms("O-116")
def test_a_connection_of_ours_finds_names_in_pg_catalog_alone(database: str) -> None:
    plant_shadows(database)
    with connect(database, autocommit=True) as conn:
        assert conn.execute("select format('%s %s', 1, name 'a'), current_setting('search_path')").fetchone() == (
            "1 a",
            "pg_catalog, pg_temp",
        )
        conn.execute("create temporary table pg_class (oid oid)")
        assert conn.execute("select 'pg_class'::regclass::oid = 1259").fetchone() == (True,)
    assert count_shadow_calls(database) == 0


@pytest.mark.conforms("O-116")
def test_no_verb_calls_what_shadows_a_function_of_postgres(
    database: str, make_spanning: Callable[..., Spanning], capsys: pytest.CaptureFixture[str]
) -> None:
    plant_shadows(database)
    spanning = make_spanning(table=TABLE, rows=ROWS, premake=1)
    init_database(spanning.dsn, WantedPlaces(warehouse=None, gateway=None, first_warehouse="", first_gateway=""))
    spanning.tier()
    seam = spanning.session("pg_catalog, public_all, public", autocommit=True)
    seam.execute("update events set v = v + 1 where id in (5, 6, 390)")
    seam.execute("insert into events (id, ts, v) values (900, '2025-06-01', 5), (901, '2026-06-20', 6)")
    seam.execute("delete from events where id = 7")
    seam.execute('select thermocline.upsert(\'public.events\', \'{"id": 902, "ts": "2026-01-03", "v": 3}\')')
    seam.execute('select thermocline.delete(\'public.events\', \'{"id": 902, "ts": "2026-01-03"}\')')
    seam.execute("select * from thermocline.explain('select * from events where id = 5')")
    seam.execute("select * from thermocline.explain('insert into events (id, ts, v) values (1, ''2026-01-01'', 1)')")
    seam.execute("select * from thermocline.as_of('public.events', now()) limit 1")
    seam.execute("select thermocline.release_pin(p.id) from thermocline.pin('public.events') p")
    seam.execute("alter table public.events add column extra numeric default 1.5")
    seam.execute("alter table public.events alter column v type bigint")
    seam.execute(
        "create table public.events_old partition of public.events for values from ('2025-01-01') to ('2025-02-01')"
    )
    spanning.fold()
    spanning.tier()
    run_pass(spanning.dsn, spanning.name, settings=spanning.settings, spark=spanning.spark, request=PassRequest())
    assert verify(spanning.dsn, spanning.name).is_exact
    where = ("--dsn", spanning.dsn, "--dir", str(spanning.settings.dir), "--json")
    for command in ("show", "tables", "doctor", "advise", "pins", "sync-grants", "policy", "status"):
        names = () if command in ("tables", "doctor", "status") else ("events",)
        run_command(capsys, command, *names, *where)
    run_command(capsys, "explain", "select * from public_all.events where id = 5", *where)
    through = make_conninfo(
        spanning.dsn, host="127.0.0.1", port=spanning.gateway.port, options="-csearch_path=pg_catalog"
    )
    with psycopg.connect(through, autocommit=True) as conn:
        assert conn.execute("select count(*), sum(v) from public_all.events where ts < '2026-03-01'").fetchone()
        assert conn.execute("select * from public_all.events where id = 5").fetchone()
    unregister_spanning(spanning, restore_heap=True)
    assert count_shadow_calls(spanning.dsn) == 0


@pytest.mark.conforms("O-116")
def test_truncate_calls_nothing_that_shadows_a_function_of_postgres(
    database: str, make_spanning: Callable[..., Spanning]
) -> None:
    plant_shadows(database)
    spanning = make_spanning(table=TABLE, rows=ROWS)
    spanning.tier()
    truncate_spanning(spanning)
    assert count_shadow_calls(spanning.dsn) == 0


@pytest.mark.conforms("O-116")
def test_every_function_of_ours_pins_its_search_path_or_was_bound_when_it_was_made(spanning: Spanning) -> None:
    unpinned = spanning.query(
        "select p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
        " where n.nspname like 'thermocline%' and p.prosqlbody is null and not coalesce(p.proconfig::text like "
        "'%search_path%', false)"
    )
    assert unpinned == []
