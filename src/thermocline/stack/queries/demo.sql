-- name: schema_comment
select coalesce(obj_description(oid, 'pg_namespace'), '') from pg_namespace where nspname = 'demo'

-- name: create_schema
create schema demo

-- name: create_table
create table demo.events (
    id bigint not null,
    ts timestamptz not null,
    customer integer not null,
    kind text not null,
    amount numeric(12, 2) not null,
    detail jsonb,
    primary key (id, ts)
) partition by range (ts)

-- name: fill
insert into demo.events
select %(first_id)s + i,
       %(lo)s::timestamptz + (%(hi)s::timestamptz - %(lo)s::timestamptz) * (i::float8 / %(rows)s),
       (i * 7919) %% 5000,
       (array['view', 'cart', 'order', 'refund'])[1 + (i * 31) %% 4],
       ((i * 104729) %% 1000000) / 100.0,
       jsonb_build_object('n', i, 'ok', i %% 3 = 0)
  from generate_series(0::bigint, %(rows)s::bigint - 1) i

-- name: aggregate
select count(*) as rows, sum(amount) as amount, count(distinct customer) as customers, min(ts) as oldest,
       max(ts) as newest
  from demo_all.events

-- name: heap_rows
select count(*) from demo.events where ts >= %s::timestamptz

-- name: cold_rows
select count(*) from demo_all.events where ts < %s::timestamptz

-- name: oldest
select id, ts, amount from demo_all.events where ts < %s order by ts, id limit 1

-- name: raise_amount
update demo_all.events set amount = amount + 1 where id = %s and ts = %s

-- name: read_back
select amount from demo_all.events where id = %s and ts = %s
