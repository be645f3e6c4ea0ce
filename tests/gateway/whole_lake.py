"""A spanning table of every native type, its twin, and two small tables beside it: what the batteries of whole queries run on."""

from __future__ import annotations

TABLE = """
create table {schema}.events (
    id bigint not null,
    ts timestamptz not null,
    day date not null,
    at timestamp,
    clock time,
    shop integer not null,
    small smallint,
    qty integer,
    price numeric(12, 2),
    rate numeric(5, 4),
    large bigint,
    kind text,
    note varchar(40),
    ok boolean,
    f double precision,
    u uuid,
    raw bytea,
    tags text[],
    primary key (id, ts)
)"""

PARTITIONS = """
create table public.events_2026_01 partition of public.events for values from ('2026-01-01 00:00+00') to ('2026-02-01 00:00+00');
create table public.events_2026_02 partition of public.events for values from ('2026-02-01 00:00+00') to ('2026-03-01 00:00+00');
create table public.events_2026_03 partition of public.events for values from ('2026-03-01 00:00+00') to ('2026-04-01 00:00+00');
create table public.events_2026_04 partition of public.events for values from ('2026-04-01 00:00+00') to ('2026-05-01 00:00+00');
"""

ROWS = """
insert into events
select i, '2026-01-01 00:00+00'::timestamptz + i * interval '51 minutes 7.25 seconds', date '2026-01-01' + i / 28,
       timestamp '2026-01-01' + i * interval '13 minutes', time '00:00' + i * interval '7 seconds',
       i % 7, case when i % 11 = 0 then null else i % 100 - 50 end, case when i % 5 = 0 then null else (i * 37) % 1000 end,
       ((i * 7919) % 100000) / 100.0, (i % 10000) / 10000.0, i::bigint * 1000000007 * 13,
       (array['click', 'view', 'buy', 'refund', 'Ärger', ''])[i % 6 + 1], case when i % 4 = 0 then null else 'note ' || i % 50 end,
       case when i % 9 = 0 then null else i % 2 = 0 end, case when i % 13 = 0 then 'NaN' when i % 17 = 0 then null else i / 3.0 end,
       md5(i::text)::uuid, decode(md5(i::text), 'hex'), array['a', i::text]
  from generate_series(1, 3300) i
"""

CHANGES = (
    "update events set qty = 5555, kind = 'corrected' where id in (10, 11, 12, 500, 1500)",
    "delete from events where id in (20, 21, 600, 1600)",
    "insert into events (id, ts, day, shop, kind) values (9001, '2026-01-15 10:00+00', '2026-01-15', 3, 'late')",
)
"""Statements on both sides after tiering: some of their rows wait in the delta, some lie in the heap."""

BESIDE = """
create table {schema}.shops (id integer primary key, name text not null, region text, opened date);
insert into {schema}.shops select i, 'shop ' || i, case when i % 3 = 0 then 'north' when i % 3 = 1 then 'south' end, date '2020-01-01' + i
  from generate_series(0, 8) i;
create table {schema}.rates (kind text, factor numeric(6, 3), valid boolean);
insert into {schema}.rates values ('click', 0.125, true), ('view', 1.5, false), ('buy', 2, true), ('refund', -1, null), ('none', 9, true);
"""
