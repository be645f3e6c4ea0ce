-- The tables that a page finds, four months of rows each, as in a database that is in use.
create table public.events (id bigint, ts timestamptz, kind text, v int, price numeric(10,2), primary key (id, ts))
    partition by range (ts);
create table public.orders (id bigint, ts timestamptz, v int, primary key (id, ts)) partition by range (ts);
create table public.clicks (id bigint, ts timestamptz, v int, primary key (id, ts)) partition by range (ts);
select format('create table public.%1$s_2026_0%2$s partition of public.%1$s for values from (%3$L) to (%4$L)', name, month,
              timestamptz '2026-01-01Z' + (month - 1) * interval '1 month',
              timestamptz '2026-01-01Z' + month * interval '1 month')
from unnest(array['events', 'orders', 'clicks']) name, generate_series(1, 4) month \gexec
insert into public.events select i, timestamptz '2026-01-01Z' + i * interval '1 hour', 'kind ' || i % 3, i % 100, i
from generate_series(1, 2800) i;
insert into public.orders select id, ts, v from public.events;
insert into public.clicks select id, ts, v from public.events;
