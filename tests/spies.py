"""Spies: code that an ordinary table owner plants wherever Postgres lets it, and that reports as whom it ran.

A report goes to the server's log, so that it is there even when the transaction is read-only or fails. A spy ran with
more rights than its planter's when its role was another, when that role or the session's login is a superuser, or when
it could change to one.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

_FUNCTIONS = """
create function public.spy(place text) returns boolean language plpgsql volatile as $spy$
declare
    ran_as text := current_user;
    escapes text[] := '{}';
    change text;
begin
    foreach change in array array['reset role', 'set role postgres', 'set session authorization default'] loop
        begin
            execute change;
            if (select r.rolsuper from pg_catalog.pg_roles r where r.rolname = current_user) then
                escapes := escapes || change;
            end if;
            raise exception 'undo' using errcode = 'SPY00';
        exception when others then
            null;
        end;
    end loop;
    raise log 'SPY %', pg_catalog.jsonb_build_object('place', place, 'role', ran_as, 'login', session_user,
        'is_super', (select pg_catalog.bool_or(r.rolsuper) from pg_catalog.pg_roles r
                      where r.rolname in (ran_as, session_user)), 'escapes', escapes);
    return true;
end $spy$;
-- They lie about being immutable, so that Postgres takes them in indexes and generated columns.
create function public.spy_number(place text, number integer) returns integer language plpgsql immutable as
    $spy$ begin perform public.spy(place); return number; end $spy$;
create function public.spy_value(place text, value text) returns boolean language plpgsql immutable as
    $spy$ begin return public.spy(place); end $spy$;
create function public.spy_test(place text) returns boolean language plpgsql immutable as
    $spy$ begin return public.spy(place); end $spy$;
create function public.spy_trigger() returns trigger language plpgsql as
    $spy$ begin perform public.spy(tg_argv[0]); return case when tg_op = 'DELETE' then old else new end; end $spy$;
create function public.spy_statement() returns trigger language plpgsql as
    $spy$ begin perform public.spy(tg_argv[0]); return null; end $spy$;
"""

BEFORE_THE_TABLE = (
    _FUNCTIONS,
    "create domain public.amount as numeric check (public.spy_value('domain check', value::text))",
    "create domain public.part as integer check (public.spy_value('domain check inside a composite', value::text))",
    "create domain public.bound as integer check (public.spy_value('domain check inside a range', value::text))",
    "create type public.pair as (a public.part, b text)",
    "create type public.span as range (subtype = public.bound)",
    "create type public.mood as enum ('sad', 'ok')",
    "create function public.mood_text(public.mood) returns text language plpgsql immutable as"
    " $spy$ begin perform public.spy('cast to text'); return 'ok'; end $spy$",
    "create function public.text_mood(text) returns public.mood language plpgsql immutable as"
    " $spy$ begin perform public.spy('cast from text'); return 'ok'::public.mood; end $spy$",
    "create cast (public.mood as text) with function public.mood_text(public.mood) as assignment",
    "create cast (text as public.mood) with function public.text_mood(text) as assignment",
    "create function public.same_mood(public.mood, public.mood) returns boolean language plpgsql immutable as"
    " $spy$ begin return public.spy('operator of an own type'); end $spy$",
    "create operator public.= (function = public.same_mood, leftarg = public.mood, rightarg = public.mood)",
    *(
        f"create function public.format({arguments}) returns text language plpgsql as"
        " $spy$ begin perform public.spy('function that shadows format'); return ''; end $spy$"
        for arguments in (
            "text, text",
            "text, name",
            "text, name, name",
            "text, text, text",
            "text, integer, text, text",
        )
    ),
    "create function public.quote_literal(bigint) returns text language plpgsql as"
    " $spy$ begin perform public.spy('function that shadows quote_literal'); return ''; end $spy$",
)

TABLE = """
create table {schema}.events (
    id bigint not null, ts timestamptz not null, v integer not null, note text default 'd',
    price public.amount, m public.mood, pr public.pair, sp public.span, prices public.amount[],
    primary key (id, ts)
)"""

ROWS = """
insert into events
select i, '2026-01-01 00:00+00'::timestamptz + i * interval '60 hours', i, 'a row', i, 'sad', row(i, 'b')::public.pair,
       public.span(1, 5), array[1, 2]::public.amount[]
  from generate_series(1, 40) i
"""


def row_trigger(place: str, relation: str, *, when: str = "before", events: str = "insert or update or delete") -> str:
    """A trigger that fires even where the session says that it is a replica."""
    name = place.replace(" ", "_").replace("'", "")
    return (
        f"create trigger {name} {when} {events} on {relation} for each row execute function"
        f" public.spy_trigger('{place}'); alter table {relation} enable always trigger {name}"
    )


def statement_trigger(place: str, relation: str, events: str = "insert or update or delete") -> str:
    name = place.replace(" ", "_").replace("'", "")
    return (
        f"create trigger {name} after {events} on {relation} for each statement execute function"
        f" public.spy_statement('{place}'); alter table {relation} enable always trigger {name}"
    )


ON_THE_TABLE = (
    row_trigger("row trigger on the heap", "public.events"),
    row_trigger("after row trigger on the heap", "public.events", when="after"),
    statement_trigger("statement trigger on the heap", "public.events"),
    statement_trigger("truncate trigger on the heap", "public.events", "truncate"),
    row_trigger("row trigger on a partition", "public.events_2026_01"),
    row_trigger("row trigger on a hot partition", "public.events_2026_04"),
    "create constraint trigger deferred_trigger after insert or update or delete on public.events deferrable"
    " initially deferred for each row execute function public.spy_trigger('deferred constraint trigger')",
    "alter table public.events add constraint spying check (public.spy('check of the heap'))",
    "alter table public.events alter column note set default public.spy('default of a column')::text",
    "alter table public.events add column made integer generated always as"
    " (public.spy_number('generated column', v)) stored",
    "create index on public.events (public.spy_number('index expression', v))",
    "create index on public.events (v) where public.spy_test('index predicate')",
    "create statistics public.spying on (public.spy_number('statistics expression', v)), v from public.events_2026_04",
    "create policy spying on public.events using (public.spy('policy'))",
)
"""What the owner plants on its own table before it is registered."""

ON_OUR_OBJECTS = (
    row_trigger("row trigger on the spill", "{spill}"),
    statement_trigger("statement trigger on the spill", "{spill}"),
    "alter table {spill} add check (public.spy('check of the spill'))",
    row_trigger("row trigger on the delta", "thermocline_delta.public__events"),
    statement_trigger("statement trigger on the delta", "thermocline_delta.public__events"),
    "alter table thermocline_delta.public__events add check (public.spy('check of the delta'))",
    "create index on thermocline_delta.public__events (public.spy_number('index expression on the delta', v))",
    "alter table thermocline_delta.public__events add column planted boolean default public.spy('column of the delta')",
    "create statistics thermocline_delta.spying on (public.spy_number('statistics of the delta', v)), v"
    " from thermocline_delta.public__events",
    "create trigger spying before insert or update or delete on thermocline_lake.public__events for each row"
    " execute function public.spy_trigger('trigger on the foreign table')",
    "create trigger spying before insert or update or delete on public_all.events for each statement"
    " execute function public.spy_statement('statement trigger on the seam')",
    "alter view public_all.events alter column note set default public.spy('default of the seam')::text",
    "alter function thermocline_fn.public__events_capture() security invoker",
)
"""What the owner plants on what registration made. Postgres refuses what is not the owner's: that is as good."""


def plant(conn: psycopg.Connection[Any], statements: tuple[str, ...], spill: str = "") -> list[str]:
    """Run each as the connection's role; those that Postgres refused."""
    refused = []
    for statement in statements:
        try:
            conn.execute(statement.replace("{spill}", spill).encode())
        except psycopg.Error as problem:
            refused.append(f"{statement.splitlines()[0][:90]}: {problem.diag.message_primary}")
    return refused


@dataclass(slots=True)
class SpyLog:
    """What spies reported to the server's log since the last look, and every place that ever reported."""

    path: Path
    planter: str
    position: int = 0
    places: set[str] = field(default_factory=set)

    def read_above(self, *others: str) -> dict[str, set[str]]:
        """The places whose spies ran with more rights than the planter's, each with the roles they saw; `others` are
        roles that ran a statement of their own, whose triggers Postgres itself runs as them."""
        with self.path.open("rb") as log:
            log.seek(self.position)
            text = log.read().decode(errors="replace")
            self.position = log.tell()
        found: defaultdict[str, set[str]] = defaultdict(set)
        for line in re.findall(r"LOG:  SPY (\{.*\})", text):
            seen = json.loads(line)
            self.places.add(seen["place"])
            if seen["role"] not in (self.planter, *others) or seen["is_super"] or seen["escapes"]:
                found[seen["place"]].add(f"{seen['role']} in {seen['login']}")
        return dict(found)
