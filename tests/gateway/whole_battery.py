"""Statements whose answers through the gateway must be Postgres' own, byte for byte, one in each line; `ordered` ones
row by row."""

from __future__ import annotations

from itertools import chain

_COLUMNS = (
    "id",
    "ts",
    "day",
    "at",
    "clock",
    "shop",
    "small",
    "qty",
    "price",
    "rate",
    "large",
    "kind",
    "note",
    "ok",
    "f",
    "u",
    "raw",
)
_CONDITIONS = (
    "id = 17",
    "id between 5 and 40",
    "id in (1, 10, 20, 3000, 9001)",
    "id not in (1, 2, 3)",
    "id <> 5 and id < 9",
    "not id > 7",
    "id < -1",
    "ts >= '2026-03-30'",
    ("ts < '2026-01-02 05:00+00' or ts > '2026-04-27 00:00:00+00'"),
    ("ts between '2026-03-31' and '2026-04-02'"),
    "day = '2026-02-03'",
    "day > date '2026-04-25'",
    ("day between '2026-03-31' and '2026-04-01'"),
    "day >= '2026-04-20'::date",
    "ts >= date '2026-04-28'",
    "ts < timestamp '2026-01-01 12:00:00'",
    "at > '2026-01-29 10:00:00'",
    "clock < '00:05:00'",
    "qty is null",
    "qty is not null and qty > 990",
    "small < -45",
    "small = 3 and shop = 2",
    "qty = small",
    "qty > shop * 140",
    "price > 990.5",
    "price = 79.19",
    "price >= 999.99",
    "price between 10 and 12.345",
    "price < 1",
    "rate = 0.0017",
    "rate * 2 > 0.65",
    "large > 40000000000000",
    "large = 13000000091",
    "large % 7 = 3 and id < 200",
    "kind = 'buy' and shop = 1",
    "kind = 'Ärger' and id < 90",
    "kind = '' and shop = 0",
    "kind <> 'view' and id < 30",
    "kind in ('late', 'corrected')",
    "kind > 'view'",
    "kind like 'r%' and id < 99",
    "kind not like '%i%' and id < 60",
    "kind like '_uy' and id < 120",
    "note is null and id < 50",
    "note = 'note 7'",
    "note like '%4_'",
    "note >= 'note 9' and id < 400",
    "ok and id < 20",
    "not ok and id < 20",
    "ok is true and id < 12",
    "ok is not true and id < 12",
    "ok is null and id < 90",
    "ok is false and id < 15",
    "f > 1090",
    "f < 2",
    "f = 1",
    "f <> 1 and id < 30",
    "f >= 1099.0",
    ("u = 'c4ca4238-a0b9-2382-0dcc-509a6f75849b'"),
    ("u < '01000000-0000-0000-0000-000000000000'"),
    "qty is distinct from 5 and id < 25",
    ("note is not distinct from null and id < 40"),
    ("extract(month from ts) = 4 and id > 3200"),
    ("extract(dow from day) = 0 and id < 300"),
    "date_trunc('day', ts) = '2026-02-14'",
    "length(note) = 6 and id < 60",
    "coalesce(qty, -1) = -1 and id < 30",
    "case when shop = 3 then qty else 0 end > 900",
    "ts > '2026-04-28'::timestamptz - interval '6 hours'",
    "ts between timestamp '2026-02-01' and timestamp '2026-02-01' + interval '1 day'",
    "day < date '2026-01-01' + 2",
)

ROWS = tuple(
    chain(
        (f"select {column} from events where id < 60" for column in _COLUMNS),
        (f"select id, ts, price, kind from events where {condition}" for condition in _CONDITIONS),
    )
)

AGGREGATES = (
    "select count(*) from events",
    "select count(*), count(qty), count(distinct shop), count(distinct kind) from events",
    "select sum(qty), sum(small), sum(large), sum(price), sum(rate) from events",
    "select min(id), max(id), min(ts), max(ts), min(day), max(day), min(price), max(price) from events",
    "select min(kind), max(kind), min(note), max(note), min(clock), max(at) from events",
    "select avg(qty), avg(small), avg(large), avg(price), avg(rate) from events",
    "select avg(qty) from events where id < 0",
    "select sum(qty), avg(price), count(*) from events where id < 0",
    "select shop, count(*) from events group by shop",
    "select shop, avg(price) from events group by shop",
    "select shop, kind, sum(price), avg(qty) from events group by shop, kind",
    "select kind, count(*) filter (where "
    "ok), sum(qty) filter "
    "(where shop > 3), avg(price) filter (where qty "
    "> 500) from"
    " events group by kind",
    "select ok, bool_and(qty > 3), bool_or(shop = 1) from events group by ok",
    "select day, count(*), sum(qty) from events where ts >= '2026-03-20' and ts < '2026-04-10' group by day",
    "select date_trunc('month', ts), count(*), sum(price) from events group by 1",
    "select date_trunc('hour', ts) as h, count(*) from events where day = '2026-03-31' group by h",
    "select extract(year from ts), extract(month from day), count(*) from events group by 1, 2",
    (
        "select extract(quarter from day), "
        "extract(week from ts), "
        "extract(doy from day), count(*) from events "
        "group by 1, 2, 3"
    ),
    "select ts::date as d, count(*) from events group by ts::date",
    "select shop, sum(qty * small) from events group by shop",
    (
        "select shop, sum(price * rate), "
        "sum(price * (1 - rate)), "
        "sum(price * (1 - rate) * (1 + rate)) from "
        "events group by shop"
    ),
    "select sum(price) / count(*), round(avg(price), 3), round(sum(price), 1) from events",
    "select shop, sum(qty) / sum(small) from events group by shop having sum(small) <> 0",
    "select kind, count(*) from events group by kind having count(*) > 540",
    "select kind, avg(price) from events group by kind having avg(price) > 499",
    "select shop % 3, count(*), sum(large) from events group by shop % 3",
    (
        "select case when qty > 500 then 'high' "
        "when qty > 100 then "
        "'middle' else 'low' end as band, count(*) "
        "from events group by band"
    ),
    "select coalesce(note, 'none'), count(*) from events group by 1",
    "select length(kind), substring(kind from 1 for 2), left(note, 6), count(*) from events group by 1, 2, 3",
    "select shop, count(distinct kind), sum(distinct small) from events group by shop",
    "select shop, min(ts), max(ts) - interval '0' from events group by shop",
    "select upper(kind), count(*) from events group by kind",
    "select kind || '!', count(*) from events group by kind",
    "select count(*) from events where kind like '%ef%' and price > 100",
    "select distinct shop, ok from events",
    "select distinct kind from events where qty > 900",
    "select count(*), sum(n) from (select shop, count(*) as n from events group by shop) s",
    "select max(n) from (select kind, sum(qty) as n from events group by kind) s where n > 0",
    "with monthly as (select "
    "date_trunc('month', ts) as m, "
    "sum(price) as total from events group by 1) "
    "select m, total from"
    " monthly where total > 0",
    "with a as (select shop, sum(qty) as q "
    "from events group by "
    "shop), b as (select shop, count(*) as n from "
    "events group by shop)"
    " select a.shop, q, n from a join b on a.shop = b.shop",
    "select shop from events where id < 20 union select shop from events where id > 3290",
    "select id, kind from events where id < 5 union all select id, kind from events where id > 3297",
    "select abs(small), count(*) from events group by 1",
    "select -qty, qty - small, qty + 1, qty * 2, qty / 7, qty % 7, -large from events where id < 80",
    "select price + 1, price - rate, price * 2, -price, round(price, 1), abs(price - 500) from events where id < 80",
    "select day + 3, day - 3, day - date '2026-01-01' from events where id < 80",
    "select nullif(kind, 'view'), nullif(qty, 37), coalesce(note, kind), coalesce(qty, 0) from events where id < 80",
    (
        "select ts::timestamp, ts::date, "
        "day::timestamp, at::date, "
        "id::int, shop::bigint, shop::numeric, "
        "shop::text from events where id < 80"
    ),
    "select count(*) from events where shop in (select id from shops where region = 'north')",
    "select count(*) from events where shop not in (select id from shops where region = 'north')",
    "select count(*) from events e where exists (select 1 from rates r where r.kind = e.kind and r.valid)",
    "select count(*) from events e where not exists (select * from shops s where s.id = e.shop and s.region is null)",
    "select id, (select max(s.id) from shops s where s.id <= e.shop) from events e where id < 30",
    "select s.name, count(*), sum(e.price) from events e join shops s on s.id = e.shop group by s.name",
    "select s.region, avg(e.price), count(*) from events e join shops s on s.id = e.shop group by s.region",
    "select s.name, count(e.id) from shops s left join events e on e.shop = s.id and e.price > 990 group by s.name",
    "select s.name, count(e.id) from events e right join shops s on s.id = e.shop group by s.name",
    (
        "select r.kind, e.id from rates r full "
        "join events e on e.kind "
        "= r.kind and e.id < 9 where e.id < 9 or "
        "e.id is null"
    ),
    "select count(*) from events a join events b on a.id = b.id + 1 and a.shop = 1",
    "select count(*) from events e, shops s, rates r where e.shop = s.id and e.kind = r.kind and s.region = 'south'",
    "select count(*) from shops cross join rates where exists (select 1 from events where events.shop = shops.id)",
)

ORDERED = (
    "select id, ts from events order by id limit 10",
    "select id, ts from events order by ts desc, id limit 10 offset 5",
    "select id, qty from events order by qty, id limit 50",
    "select id, qty from events order by qty desc, id desc limit 50",
    "select id, qty from events order by qty nulls first, id limit 700 offset 640",
    "select id, qty from events order by qty desc nulls last, id limit 20",
    "select kind, id from events order by kind, id limit 30",
    "select id from events where shop = 2 order by price desc, id limit 7",
    "select id, price * 2 as double from events order by double desc, 1 limit 9",
    "select id from events order by -id limit 3",
    "select kind, count(*) as c from events group by kind order by c desc, kind",
    "select kind, count(*) from events group by kind order by 2 desc, 1 limit 3",
    "select shop, sum(price) as s from events group by shop order by s desc limit 3",
    "select kind, avg(price) from events group by kind order by avg(price) desc, kind limit 4",
    (
        "select kind, avg(qty) as a, count(*) "
        "from events where qty > "
        "10 group by kind having count(*) > 5 order "
        "by a, kind"
    ),
    "select note, count(*) as c from events where note is not null group by note order by c desc, note limit 10",
    "select date_trunc('month', ts) as m, shop, count(*) from events group by m, shop order by m, shop",
    "select extract(hour from ts) as h, count(*) from events group by h order by h",
    "select id, row_number() over (partition by shop order by ts, id) from events where id < 60 order by id",
    (
        "select id, rank() over (order by qty "
        "desc, id), dense_rank() "
        "over (order by shop) from events where id "
        "< 60 order by id"
    ),
    (
        "select id, sum(qty) over (partition by "
        "kind order by id), "
        "count(*) over (partition by shop) from events "
        "where id < 90 order by id"
    ),
    "select id, max(price) over (partition by shop order by ts, id) from events where id < 90 order by id",
    "select distinct shop from events order by shop desc",
    "select id from events where id < 9 union all select id from events where id < 4 order by 1 limit 8",
    # ClickBench's shapes
    "select shop, count(*) as c from events where kind <> '' group by shop order by c desc, shop limit 10",
    "select kind, count(distinct id) as u from events where kind <> '' group by kind order by u desc, kind limit 10",
    (
        "select shop, sum(qty), count(*) as "
        "c, avg(price), "
        "count(distinct small) from events group by shop order "
        "by c desc, shop limit 10"
    ),
    (
        "select note, min(kind), count(*) as c "
        "from events where kind "
        "like '%i%' and note <> '' group by note "
        "order by c desc, note limit 10"
    ),
    "select shop, avg(length(kind)) as l, "
    "count(*) as c from "
    "events where kind <> '' group by shop having "
    "count(*) > 100"
    " order by l desc, shop limit 25",
    (
        "select sum(qty), sum(qty + 1), sum(qty "
        "+ 2), sum(qty + 3), "
        "sum(qty + 4), sum(qty + 5), sum(qty + 6), "
        "sum(qty + 7) from events"
    ),
    (
        "select id, shop, count(*) as c, "
        "sum(small), avg(qty) from "
        "events group by id, shop order by c desc, id, "
        "shop limit 10"
    ),
    "select 1, note, count(*) as c from events group by 1, note order by c desc, note limit 10",
    (
        "select shop, shop - 1, shop - 2, "
        "count(*) as c from events "
        "group by shop, shop - 1, shop - 2 order by c "
        "desc, shop limit 10"
    ),
    "select date_trunc('minute', ts) as m, "
    "count(*) from events "
    "where day >= '2026-03-31' and day <= "
    "'2026-04-01' group by m"
    " order by m limit 10 offset 5",
    "select kind, shop, count(*) as views from "
    "events where day >= "
    "'2026-01-10' and day <= '2026-04-10' and "
    "ok group by kind, shop"
    " order by views desc, kind, shop limit 10",
    # TPC-H's shapes
    "select kind, ok, sum(qty) as sum_qty, sum(price) as sum_base, sum(price * (1 - rate)) as sum_disc,"
    " sum(price * (1 - rate) * (1 + "
    "rate)) as sum_charge, "
    "avg(qty) as avg_qty, avg(price) as avg_price, "
    "avg(rate) as avg_disc, count(*)"
    " from events where day <= date '2026-05-01' - interval '20 days' group by kind, ok order by kind, ok",
    "select sum(price * rate) as revenue "
    "from events where day "
    ">= date '2026-02-01' and day < date "
    "'2026-02-01' + interval '1' month"
    " and rate between 0.05 - 0.01 and 0.12 + 0.01 and qty < 240",
    "select s.name, sum(e.price * (1 - "
    "e.rate)) as revenue from "
    "events e, shops s where e.shop = s.id and "
    "s.region = 'north'"
    " and e.day >= date '2026-01-15' "
    "and e.day < date "
    "'2026-01-15' + interval '2' month group by s.name "
    "order by revenue desc",
    "select e.kind, sum(case when s.region = 'north' or s.region = 'south' then 1 else 0 end) as high,"
    " sum(case when s.region <> 'north' and s.region <> 'south' then 1 else 0 end) as low"
    " from events e join shops s on s.id = e.shop where e.kind in ('buy', 'view') and e.qty > 10"
    " group by e.kind order by e.kind",
    "select s.region, extract(year from e.day) as y, sum(e.price) from events e join shops s on s.id = e.shop"
    " join rates r on r.kind = e.kind where r.factor > 0 group by s.region, y order by s.region, y",
    "select c, count(*) as dist from (select "
    "s.id, count(e.id) as c "
    "from shops s left outer join events e on "
    "e.shop = s.id"
    " and e.kind not like '%view%' group by s.id) as counts group by c order by dist desc, c desc",
    "select 100.00 * sum(case when kind like "
    "'b%' then price * (1 "
    "- rate) else 0.000000 end) / sum(price * "
    "(1 - rate)) from events"
    " where price > 1",
    "with revenue as (select shop as no, "
    "sum(price * (1 - rate)) "
    "as total from events group by shop) select "
    "s.id, s.name, total"
    " from shops s, revenue where s.id = no and total = (select max(total) from revenue) order by s.id",
    "select count(distinct e.id) from events e join rates r on r.kind <> e.kind where r.factor in (0.125, 2.000)",
    "select s.name, e.id from shops s, "
    "events e where s.id = "
    "e.shop and exists (select * from rates r where "
    "r.kind = e.kind and"
    " r.factor < e.rate) and s.region = 'north' order by s.name, e.id limit 20",
)

LEFT_TO_POSTGRES = (
    "select sum(f), avg(f) from events",
    "select kind, array_agg(id order by id) from events where id < 20 group by kind",
    "select string_agg(kind, ',' order by id) from events where id < 9",
    "select * from events where id < 5",
    "select tags[2] from events where id = 3",
    "select lower(kind) from events where id < 5",
    "select kind from events where kind ~ '^b' and id < 30",
    "select id from events where kind ilike 'BUY' and id < 30",
    "select to_char(ts, 'YYYY-MM'), count(*) from events group by 1",
    "select id, lag(qty) over (order by id) from events where id < 9",
    "select stddev(qty) from events",
    "select distinct on (shop) shop, id from events order by shop, id",
    "select shop, count(*) from events group by rollup (shop)",
    "select id from events where ts at time zone 'Europe/Berlin' < '2026-01-01 03:00'",
    "select percentile_cont(0.5) within group (order by qty) from events",
    "select id from events where u::text like 'c4ca%'",
    "select id, qty / nullif(small, 0) from events where id < 30",
    "select price / 3 from events where id < 5",
    "select every(id > 0) from events",
    "select sum(case when kind like 'b%' then price * (1 - rate) else 0 end) from events",
    "select ts - at from events where id < 5",
    "select id from events where raw = '\\xc4ca4238a0b923820dcc509a6f75849b'::bytea and f = 'NaN'",
    "select id from events intersect select id + 1 from events where id < 9",
)

AT_THE_EDGES = [
    *(
        f"select count(*), sum(qty) from events where id {op} {edge}"
        for op in ("<", "<=", ">", ">=")
        for edge in (1, 2, 9001)
    ),
    "select kind, count(*) from events where ts >= '2026-01-01' and ts < '2026-04-01' group by kind",
    "select count(*), sum(price) from events where ts < '2026-03-31 23:59:59.999999+00'",
    "select count(*), sum(shop) from events where qty >= 0",
    "select count(*) from events where small is not null",
    "select count(*) from events where shop is not null and qty is null",
]
"""Conditions that the lake's own bounds satisfy for every row, or fail for one: the lowest id is 1, the highest 9001;
qty has nulls."""
