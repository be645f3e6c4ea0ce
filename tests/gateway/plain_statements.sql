-- Constants, names and digits
select sum(price::numeric) from events
select sum(price::numeric(10,1)) from events
select price::numeric from events where id < 5
select avg(price::numeric) from events
select sum(shop::numeric) from events
select max(rate::decimal) from events
select substring(kind from '1') from events where id < 5
select substring(kind, 2) from events where id < 5
select coalesce(price, '0') from events where id < 5 or id = 9001
select coalesce(price, '0.5') from events where id = 9001
select sum(coalesce(price, '0')) from events
select case when id < 3 then price else '0' end from events where id < 5
select case when id < 3 then qty else '0' end from events where id < 5
select case when id < 3 then '1' else '0' end from events where id < 5
select user, count(*) from events
select current_role, count(*) from events
select session_user, count(*) from events
select current_user from events where id < 3
select current_catalog, count(*) from events
select count(*) from events where kind <> user
select count(*) from events where kind <> current_user
select count(user) from events
with "Orders" as (select 1 as id) select count(*) from orders
with "Orders" as (select id from events where id < 5) select count(*) from Orders
with "Orders" as (select id from events where id < 5) select count(*) from "Orders"
with Orders as (select id from events where id < 5) select count(*) from "orders"
with "Events" as (select id from events where id < 5) select count(*) from events
with events as (select id from events where id < 5) select count(*) from events
select "ID" from events where id < 3
select e.id as "Id", e.id as id from events e where id < 3
select "E".id from events "E" where "E".id < 3
select E.id from events "E" where id < 3
select id as "A b", kind as "ÄÖ" from events where id < 3
select sum(price) as Sum, count(*) as "COUNT" from events
select 1e0 from events where id < 3
select .1 from events where id < 3
select 1. from events where id < 3
select price * 1e0 from events where id < 3
select price + 1e2 from events where id < 3
select f * 0.1 from events where id < 5
select count(*) from events where f > 1e2
select count(*) from events where f > 100.1
select count(*) from events where f = 0.3333333333333333
select count(*) from events where f < 0.33333333333333331
select count(*) from events where price > 1e2
select count(*) from events where qty > 1e2
select count(*) from events where qty > 99.5
select 10/3, count(*) from events
select qty/7, qty/7.0 from events where id < 5
select qty / -7, qty % -7, -qty / 7, -qty % 7 from events where id < 9
select sum(qty)/count(*) from events
select qty * 2147483647 from events where id < 5
select large * large from events where id < 5
select small * 32767::smallint from events where id < 5
select small + 32767 from events where id < 5
select sum(large) from events
select '{}' || kind from events where id < 5
select kind || '{0}' from events where id < 5
select count(*) from events where kind = '{}'
select count(*) from events where kind = '%s'
select count(*) from events where kind <> '?'
select coalesce(note, '?'), count(*) from events group by 1
select coalesce(note, '{}'), avg(price) from events group by 1
select coalesce(note, '"thermocline groups"'), avg(price) from events group by 1
select kind, avg(price), '"thermocline groups"' from events group by kind
select kind, avg(price), '$1' from events group by kind
select kind, avg(price) as "thermocline groups" from events group by kind order by "thermocline groups"
select time '24:00' from events where id < 3
select clock from events where clock < time '24:00' and id < 3
select clock from events where clock < '24:00:00' and id < 3
select max(time '24:00') from events
select date 'infinity' from events where id < 3
select day from events where day < 'infinity' and id < 3
select count(*) from events where day < date 'infinity'
select count(*) from events where ts < 'infinity'
select count(*) from events where ts > '-infinity'::timestamptz
select date '0044-03-15 BC' from events where id < 3
select timestamp '0044-03-15 00:00 BC' from events where id < 3
select date '4713-01-01 BC', count(*) from events
select timestamp '294276-12-31 23:59:59' from events where id < 3
select date '5874897-12-31' from events where id < 3
select 'NaN'::numeric from events where id < 3
select count(*) from events where price < 'NaN'
select count(*) from events where price < 'NaN'::numeric
select count(*) from events where f < 'NaN'
select count(*) from events where f = 'Infinity'
select count(*) from events where f < '-0'
select interval '1 day' from events where id < 3
select ts + interval '1 day' from events where id < 3
select day + interval '1 month' from events where id < 3
select day + time '10:00' from events where id < 3
select extract(epoch from ts) from events where id < 3
select extract(second from ts) from events where id < 3
select extract(isoyear from day), extract(century from day), extract(decade from day) from events where id < 3
select date_part('year', ts), count(*) from events group by 1
select date_part('dow', day) from events where id < 3
-- Literals, comparisons and casts
select count(*) from events where kind = E'bu\x79'
select count(*) from events where kind = E'b\'uy'
select count(*) from events where kind = U&'\0062uy'
select U&"\0069d" from events where id < 3
select count(*) from events where kind = 'bu' 'y'
select count(*) from events where kind = $$buy$$
select count(*) from events where kind = $a$buy$a$
select count(*) from events where kind = N'buy'
select count(*) from events where id < 0x1F
select count(*) from events where id < 1_000
select count(*) from events where id < 0b11
select count(*) from events where id < 0o17
select B'101' from events where id < 3
select X'1F' from events where id < 3
select count(*) from events /* a /* nested */ where id < 3 */ where id < 5
select count(*) from events where id < 5 -- and id < 3
select count(*) from events where kind = 'a''b'
select count(*) from events where kind = 'a\'
select count(*) from events where kind like 'a\%'
select count(*) from events where kind like 'b_y' escape '_'
select count(*) from events where kind like '%' || 'uy'
select count(*) from events where kind not like 'b%'
select count(*) from events where kind !~ 'b'
select count(*) from events where kind ~* 'B'
select count(*) from events where kind similar to '(b|v)%'
select count(*) from events where kind ~~ 'b%'
select count(*) from events where kind !~~ 'b%'
select count(*) from events where kind ^@ 'b'
select 7 % 3, 7 ^ 2, 5 & 3, 5 | 3, 5 # 3, ~5, 1 << 3, @ -5, |/ 4 from events where id < 3
select -qty from events where id < 5
select - - qty from events where id < 5
select +qty from events where id < 5
select -2147483648 from events where id < 3
select -9223372036854775808 from events where id < 3
select 9223372036854775808 from events where id < 3
select 2147483648 from events where id < 3
select -32768::smallint from events where id < 3
select -1::text from events where id < 3
select - 1 ^ 2 from events where id < 3
select 2 + 3 * 4 - 1 from events where id < 3
select 7 - 3 - 2 from events where id < 3
select 100 / 7 / 2 from events where id < 3
select 100 / 7 * 2 from events where id < 3
select 100 - 7 % 4 from events where id < 3
select id from events where id = 1 or id = 2 and shop = 9
select id from events where (id = 1 or id = 2) and not shop = 1 or id = 7
select count(*) from events where not ok is null
select count(*) from events where not ok = true
select count(*) from events where qty > 3 is true
select count(*) from events where qty between 3 and 5 or id between 5 and 3
select count(*) from events where qty between symmetric 500 and 3
select count(*) from events where qty not between 3 and 500
select count(*) from events where qty in (1, null)
select count(*) from events where qty not in (1, null)
select count(*) from events where qty in ('1', '37')
select count(*) from events where qty in (37, '74', 111.0)
select count(*) from events where (shop, small) in ((1, 2), (3, 4))
select count(*) from events where (shop, small) = (1, 2)
select count(*) from events where qty = any('{1,37}')
select count(*) from events where kind in ('buy', 'view', null)
select count(*) from events where qty = null
select count(*) from events where null
select count(*) from events where 't'
select count(*) from events where ok = 't'
select count(*) from events where ok = 'yes'
select count(*) from events where ok = '1'
select count(*) from events where ok = 'off'
select count(*) from events where qty = ' 37 '
select count(*) from events where qty = '37.0'
select count(*) from events where day = '20260203'
select count(*) from events where day = '2026-2-3'
select count(*) from events where day = 'Feb 3 2026'
select count(*) from events where day = 'today'
select count(*) from events where day < 'tomorrow'
select count(*) from events where ts < 'now'
select count(*) from events where ts < now()
select count(*) from events where ts < now()::timestamp
select count(*) from events where day < current_date
select count(*) from events where ts < current_date
select count(*) from events where ts = '2026-02-03T10:00:00Z'
select count(*) from events where ts < '2026-02-03 10:00:00 Europe/Berlin'
select count(*) from events where ts < '2026-02-03 10:00:00.1234567'
select count(*) from events where ts < '2026-02-03 24:00:00'
select count(*) from events where ts < '2026-02-03 10:00:60'
select count(*) from events where at < '2026-02-03 10:00:00+05'
select count(*) from events where at < timestamptz '2026-02-03 10:00:00+05'
select count(*) from events where ts < timestamp with time zone '2026-02-03 10:00:00+05'
select count(*) from events where ts < timestamp(0) '2026-02-03 10:00:00.9'
select count(*) from events where clock < '10:00'
select count(*) from events where clock < '10:00 PM'
select count(*) from events where clock < time '10:00:00.5'
select count(*) from events where clock < '00:00:60'
select count(*) from events where u = 'C4CA4238A0B923820DCC509A6F75849B'
select count(*) from events where u = '{c4ca4238-a0b9-2382-0dcc-509a6f75849b}'
select count(*) from events where raw = '\xc4ca4238a0b923820dcc509a6f75849b'
select count(*) from events where raw = 'abc'
select count(*) from events where price = '79.19'
select count(*) from events where price = '7.919e1'
select count(*) from events where price = ' 79.19'
select count(*) from events where price = 79.190
select count(*) from events where price = 79.1900000000000000000000000000000000000000000001
select count(*) from events where price < 99999999999999999999999999999999999999999999999999
select count(*) from events where large < 9223372036854775808
select count(*) from events where small = 40000
select count(*) from events where small = 2147483648
select count(*) from events where id = 1.5
select count(*) from events where f = '1.0'
select count(*) from events where f = 1.0
select count(*) from events where f = 1::real
select count(*) from events where f > qty
select count(*) from events where f > price
select count(*) from events where kind = 'buy'::varchar
select count(*) from events where kind = 'buy'::char(5)
select count(*) from events where kind = 'buy  '::bpchar
select count(*) from events where kind = 'buy'::name
select count(*) from events where note::text = 'note 7'
select note::varchar(3) from events where id < 5
select cast(note as char(3)) from events where id < 5
select note::bpchar from events where id < 5
select qty::float8, qty::real, qty::smallint from events where id < 5
select price::int, price::bigint, price::float8, price::text from events where id < 9
select rate::int, (price/2)::int from events where id < 9
select f::int, f::numeric, f::text, f::real from events where id < 9
select ok::int, ok::text from events where id < 9
select qty::bool, shop::bool from events where id < 9
select id::int, large::int from events where id < 2
select large::int from events where id < 5
select small::int, small::bigint, shop::smallint from events where id < 5
select ts::text, day::text, at::text, clock::text from events where id < 3
select u::text, raw::text from events where id < 3
select ts::time, ts::timetz, at::time from events where id < 3
select ts::timestamp(0), at::timestamp(3) from events where id < 3
select '5'::int + qty from events where id < 3
select qty + '5' from events where id < 3
select price * '2' from events where id < 3
select day - '2026-01-01' from events where id < 3
select day + '3' from events where id < 3
select ts - '2026-01-01' from events where id < 3
select kind || 5 from events where id < 3
select kind || null from events where id < 3
select kind || shop from events where id < 3
select 'a' || 'b' from events where id < 3
select nullif(price, '79.19') from events where id < 3
select nullif(kind, null), nullif(qty, '37') from events where id < 3
select nullif(1, id), nullif(id, 1), nullif(shop, 1) from events where id < 3
select nullif(price, 79.19), nullif(price, rate) from events where id < 3
select coalesce(qty, 1.5) from events where id < 6
select coalesce(qty, id) from events where id < 6
select coalesce(small, qty) from events where id < 6
select coalesce(price, 0.00), coalesce(price, 0), coalesce(price, 0.0) from events where id < 6 or id = 9001
select coalesce(price, rate) from events where id < 6 or id = 9001
select coalesce(note, 'x'), coalesce(null, note), coalesce(note) from events where id < 6
select coalesce(ts, '2026-01-01'), coalesce(at, '2026-01-01'), coalesce(day, 'today') from events where id < 3
select coalesce(ts, day) from events where id < 3
select case shop when '1' then 'a' when 2 then 'b' end from events where id < 5
select case kind when 'buy' then 1 else 2.5 end from events where id < 5
select case when ok then 1 end from events where id < 5
select case when ok then null end from events where id < 5
select case when ok then null else null end from events where id < 5
select case when ok then day else ts end from events where id < 5
select case when ok then note else kind end from events where id < 5
select case when id = 1 then 1 else 1/(id-1) end from events where id < 5
select case when true then 1 else 1/0 end from events where id < 5
select greatest(qty, shop), least(price, 10), greatest(kind, 'c') from events where id < 5
-- Queries, aggregates, functions
select (select max(e.qty) from shops s where s.id = 0) from events e where e.id < 30
select (select sum(e.qty + s.id) from shops s) from events e where e.id < 5
select ts::date from events order by ts, id limit 3
select count(*), shop from events group by shop order by count, shop
select count(*) as id from events order by id
select small/7, small%7, small/2, (small - 3)/4 from events where id < 60
select kind from events where id < 5 union all select kind from events where id < 3 union select kind from events where id < 2
select kind from events where id < 5 union select kind from events where id < 3 union all select kind from events where id < 2
(select id from events order by id limit 2) union all (select id from events order by id desc limit 2)
select id from events where id < 4 union all select id from events where id < 3 order by id desc limit 3
with a as (select id from events where id < 9) select count(*) from a union all select 5
select count(*) from (with a as (select id from events where id < 9) select id from a) s
select count(*) from (with shops as (select 1 as id) select id from shops) s, shops t, events e where e.id < 3
select count(*) from shops, (with shops as (select id from events where id < 3) select id from shops) s
with shops as (select id from events where id < 3) select count(*) from shops
with Shops as (select id from events where id < 3) select avg(id) from shops
with "Shops" as (select id from events where id < 3) select avg(id) from shops
with "SHOPS" as (select id from events where id < 3), x as (select shop, avg(qty) a from events group by shop) select count(*) from x
with x as (select shop from events) select x.shop, avg(shop) from x group by shop
with a(n) as (select id from events where id < 3) select n from a
with recursive a as (select 1 as n union all select n + 1 from a where n < 5) select count(*) from a, events where events.id = a.n
with a as materialized (select id from events where id < 3) select count(*) from a
select e.* from events e where id < 3
select *, id + 1 from events where id < 3
select count(*) from events e join shops s using (shop)
select count(*) from events natural join shops
select count(*) from only public.events where id > 3290
select id, x from events, lateral (select qty + 1 as x) l where id < 5
select id, x from events e cross join lateral (select max(s.id) as x from shops s where s.id < e.shop) l where id < 9
select id, g from events, generate_series(1, 2) g where id < 3
select id from events where id in (select shop from events where id < 5)
select id from events e where qty > (select avg(qty) from events i where i.shop = e.shop) and id < 50
select id from events e where qty = (select max(qty) from events i where i.shop = e.shop) and id < 500
select shop, count(*) from events group by grouping sets ((shop), ())
select shop, ok, count(*) from events group by cube (shop, ok)
select shop, grouping(shop), count(*) from events group by rollup (shop)
select distinct on (shop) shop, id from events order by shop, id desc
select id, lead(id) over w from events where id < 9 window w as (order by id)
select id, sum(qty) over (order by id rows between 1 preceding and current row) from events where id < 9
select id, ntile(3) over (order by id), percent_rank() over (order by id) from events where id < 9
select id, first_value(kind) over (partition by shop order by id) from events where id < 19
select id, avg(price) over (partition by shop) from events where id < 9
select id, count(*) filter (where ok) over (partition by shop) from events where id < 19
select sum(sum(qty)) over () from events group by shop
select string_agg(kind, '|' order by id), array_agg(shop order by id) from events where id < 5
select json_agg(id order by id), jsonb_build_object('a', count(*)) from events where id < 5
select var_samp(qty), stddev_pop(price), corr(f, f), mode() within group (order by shop) from events where id < 20
select count(*) from events limit all
select id from events order by id limit null
select id from events order by id limit 0
select id from events order by id offset 3295
select id from events order by id fetch first 2 rows only
select id from events order by id limit 2 + 1
select id from events order by id limit '2'
select id from events order by qty using <, id limit 3
select id from events order by ok, id limit 5
select id from events order by ok desc, f, id limit 5
select id from events order by u limit 3
select id from events order by raw limit 3
select id from events order by clock desc, id limit 3
select id, kind from events order by kind collate "C" desc, id limit 4
select kind as k from events where id < 9 order by k || 'x', id
select shop as kind, kind as shop from events where id < 9 order by kind, shop, id
select shop + 1 as s from events where id < 9 group by s order by s
select shop as qty, count(*) from events group by qty, shop order by 1, 2 limit 10
select -shop as shop, count(*) from events group by shop order by 1
select count(*) c from events having count(*) > 5
select 1 from events having true
select shop from events group by shop having max(price) > 999 order by shop
select kind, count(*) from events group by kind having kind like 'b%'
select kind, count(*) from events group by kind having avg(price) > 1 and count(*) > 3 order by kind
select count(distinct (shop, kind)) from events
select count(distinct f) from events
select count(all shop) from events
select sum(distinct price), max(distinct shop) from events
select sum(small), sum(id), sum(price * price), sum(rate * rate * rate) from events
select sum(price * price * price * price) from events
select avg(small), avg(id), avg(ts - ts) from events
select min(ok::int), max(u::text) from events
select min(u), max(raw) from events where id < 9
select bool_and(ok), every(ok), bool_or(null) from events
select max(null), min('x'), count(null), sum(null::int) from events
select count(*) from events where exists (select from shops)
select exists (select 1 from events where id = 3) from shops where id = 1
select not exists (select 1 from events where id = 3), 3 in (select id from events) from shops where id = 1
select null from events where id < 3
select 'x', 1, 2.50, true, null from events where id < 3
select distinct 'x' from events
select length(kind), length(note), char_length('Äb'), octet_length(kind) from events where id < 9
select substring(kind from 2 for 2), substr(kind, 2), substr(kind, 0, 3), substring(kind, -1, 4) from events where id < 9
select substring(kind from 'u.') from events where id < 9
select substring(kind for 2), substring(kind from 2) from events where id < 9
select left(kind, -1), right(kind, 2), right(kind, -2), left(kind, 0) from events where id < 9
select left(kind, 2), right(note, 3) from events where id < 9
select upper(kind), initcap(kind), reverse(kind), repeat(kind, 2) from events where id < 9
select trim(kind), ltrim(kind, 'b'), btrim(kind), lpad(kind, 8), rpad(kind, 8, '*') from events where id < 9
select replace(kind, 'u', 'x'), translate(kind, 'bu', 'xy'), split_part(note, ' ', 2), strpos(kind, 'u'), position('u' in kind) from events where id < 9
select concat(kind, shop, null), concat_ws(',', kind, null, shop), format('%s-%s', kind, shop), md5(kind) from events where id < 9
select ascii(kind), chr(65), regexp_replace(kind, 'u', 'x'), to_char(qty, '999') from events where id < 9
select overlay(kind placing 'XX' from 2 for 1), quote_literal(kind), kind < 'c' from events where id < 9
select date_trunc('week', ts), date_trunc('mon', ts), date_trunc('M', ts), date_trunc('year', day), date_trunc('decade', at) from events where id < 4
select date_trunc('hour', at), date_trunc('day', day), date_trunc('quarter', at), date_trunc('second', ts) from events where id < 9
select date_trunc('day', ts, 'Asia/Tokyo') from events where id < 4
select extract(hour from ts), extract(minute from at), extract(week from day), extract(isodow from ts), extract(doy from at) from events where id < 9
select extract(year from age(ts, at)), date_bin('1 hour', ts, '2026-01-01') from events where id < 4
select day - 1, day + 1, day - day, date '2026-01-01' - day, day + 1 > '2026-01-05' from events where id < 9
select day + 2147483647 from events where id < 3
select ts > at, ts > day, at > day, day = ts from events where id < 9
select at + interval '1 month', ts - interval '1 hour', clock + interval '1 hour', ts - ts from events where id < 4
select ts at time zone 'UTC', at at time zone 'Europe/Berlin', timezone('UTC', ts) from events where id < 4
select make_date(2026, shop + 1, 1), to_timestamp(id), to_date('2026', 'YYYY') from events where id < 4
select round(price), round(price, 1), round(-price, 1), round(price * -1.5, 2), round(rate, 2), round(rate, -1) from events where id < 60
select ceil(price), floor(price), trunc(price, 1), sign(price), sqrt(shop), power(shop, 2), mod(shop, 2) from events where id < 9
select round(qty / 3.0, 2), round(f), abs(f), abs(small), abs(price - 500), -small, - rate from events where id < 9
select price + qty, price - id, price * small, rate * price * 2, 1 - rate, 2.5 * qty, 1.50 + shop from events where id < 60
select price + large, large * rate, large + 1, large - 1.5 from events where id < 60
select qty + small, small + small, small * small, qty - id, shop * large from events where id < 9
select qty & 3, qty | 4, qty # 1, ~qty, qty << 1 from events where id < 4
select qty = 5.0, price = 79, price > qty, rate < 0.5, id = shop from events where id < 9
select qty is distinct from null, null is distinct from qty, f is distinct from 1, price is not distinct from 79.19 from events where id < 4
select array[id, 2], array_length(tags, 1), tags[1], 'a' = any(tags), tags || 'x', unnest(tags) from events where id < 4
select row(id, kind), (id, kind) = (1, 'buy') from events where id < 4
select id from events where (id, shop) < (3, 4) and id < 9
select count(*) from events where ok = any(array[true])
select id from events where id = any(array[1, 2, 3]) or id = any('{7}'::bigint[])
select id from events where shop = all(array[1]) and id < 20
select id from events where id > all(select shop from events) and id < 12
select e1.id from events e1 left join events e2 on e1.id = e2.id and e2.qty is null where e2.id is null and e1.id < 12
select s.name, e.id from shops s left join (select id, shop from events where id < 5) e on e.shop = s.id
select count(*) from events e full join shops s on e.shop = s.id and s.id > 3
select count(*) from shops s join events e on e.shop = s.id and s.opened < e.day
select count(*) from events a join events b on a.id = b.qty where a.id < 100
select count(*) from events a join rates r on a.price > r.factor and r.kind = a.kind
select r.factor + e.price, r.factor * e.rate from rates r join events e on r.kind = e.kind where e.id < 9
select count(*) from events e, shops s where e.shop = s.id or s.id = 3
select s.id, (select count(*) from events e where e.shop = s.id) from shops s
select s.id, (select e.id from events e where e.shop = s.id) from shops s
select s.id, (select e.kind from events e where e.shop = s.id order by e.id limit 1) from shops s
values (1), (2)
table events
select
select from events where id < 3
select count(*) from events where id < 1000 and id < 500 and not (id > 300 or id < 200)
select count(*) from events where timestamp '1969-12-31 23:59:59.999999' <> date_trunc('year', at)
select count(*) from events where date_trunc('month', at) = '2026-01-15' or at is null
select count(*) from events where not (date_trunc('week', at) = '2026-01-15 00:00:01')
select count(*) from events where date_trunc('year', at) is distinct from timestamp '2026-01-01 00:00:01'
select date_trunc('month', at) = '2026-01-15', date_trunc('month', at) <> '2026-01-15', id from events where id > 3298
-- words for units and fields: those of Postgres, in the place where Postgres looks for them
select date_trunc('Q', ts) from events where id < 4
select date_trunc('q', ts) from events where id < 4
select date_trunc('D', ts), date_trunc('H', at), date_trunc('M', ts), date_trunc('S', at), date_trunc('W', ts), date_trunc('Y', day) from events where id < 4
select date_trunc('MS', ts) from events where id < 4
select date_trunc('US', ts) from events where id < 4
select date_trunc('NS', ts) from events where id < 4
select date_trunc('DAY', ts), date_trunc('Month', at) from events where id < 4
select date_trunc('qtr', ts), date_trunc('weeks', ts), date_trunc('yr', at), date_trunc('hrs', at) from events where id < 4
select date_trunc(' day', ts) from events where id < 4
select date_trunc('"day"', ts) from events where id < 4
select date_trunc('week(monday)', ts) from events where id < 4
select date_trunc('isoweek', ts) from events where id < 4
select date_trunc(day, ts) from events where id < 4
select date_trunc(month, ts) from events where id < 4
select date_trunc(events.day, ts) from events where id < 4
select date_trunc("month", ts) from events where id < 4
select date_trunc(kind, ts) from events where id = 1
select date_trunc('day'::text, ts) from events where id < 4
select count(*) from events where date_trunc('Q', ts) > '2026-01-01'
select count(*) from events where date_trunc('Q', at) > timestamp '2026-01-01'
select count(*) from events where ts > date_trunc('Q', timestamptz '2026-02-03 00:00+00')
select count(*) from events where ts > date_trunc('day', date '2026-02-03')
select count(*) from events where ts > date_trunc(day, timestamptz '2026-02-03 00:00+00')
select timestamp_trunc(ts, 'day') from events where id < 4
select timestamp_trunc(ts, day) from events where id < 4
select extract(Q from ts) from events where id < 4
select extract('Q' from ts) from events where id < 4
select extract('quarter' from ts), extract("WEEK" from at), extract(Year from day), extract('DOW' from day) from events where id < 4
select extract(qtr from ts), extract(y from ts), extract(d from at), extract(mon from day), extract(m from at), extract(h from at) from events where id < 4
select extract(dayofweek from ts) from events where id < 4
select extract(week(monday) from ts) from events where id < 4
select extract(isoyear from ts), extract(second from at), extract(epoch from day), extract(century from at) from events where id < 4
select extract(day, ts) from events where id < 4
select date_part('day', ts), date_part('Hour', at), date_part('month', day) from events where id < 4
select date_part('Q', ts) from events where id < 4
select date_part(day, ts) from events where id < 4
select date_part("month", ts) from events where id < 4
select date_part('day', ts) + 1, date_part('year', at) / 7 from events where id < 4
select count(*) from events where date_part('day', ts) = 3
select count(*) from events where date_part('day', ts) / 2 = 1.5
select sum(date_part('day', ts)), max(date_part('day', at)) from events
select date_part('day', ts) as d, count(*) from events group by d order by d
select count(*) from events group by date_part('month', ts) having max(date_part('month', ts)) / 2 = 0.5
select year(ts) from events where id < 4
select date_diff('day', ts, ts) from events where id < 4
select len(kind) from events where id < 4
select length(kind), char_length(kind), character_length(kind) from events where id < 4
select ifnull(qty, 3) from events where id < 4
select nvl(qty, 3) from events where id < 4
select logical_and(ok) from events
select logical_or(ok) from events
select every(ok), bool_and(ok), bool_or(ok) from events
select mean(qty) from events
select average(qty) from events
select count_if(ok) from events
select substr(kind, 2), substring(kind, 2, 1), substring(kind from 2 for 1) from events where id < 4
select mid(kind, 2) from events where id < 4
select lcase(kind) from events where id < 4
select ucase(kind) from events where id < 4
select any_value(qty) is null from events
select mod(qty, 7), abs(qty), round(price, 1), round(price) from events where id < 4
select "left"(kind, 2), "date_trunc"('day', ts) from events where id < 4
select LENGTH(kind), "LENGTH"(kind) from events where id < 4
select "Sum"(qty) from events
select pg_catalog.length(kind), pg_catalog.date_trunc('Q', ts) from events where id < 4
select date_trunc('ſecond', ts), date_trunc('mınute', ts) from events where id < 4
select extract('mınute' from at), extract('weeK' from at) from events where id < 4
select count(*) from events where date_part('day', ts) = 3.00000000000000000001
select count(*) from events where extract(day from ts) = 3.00000000000000000001
-- intervals in the client's own words
select count(*) from events where ts >= '2026-01-03'::timestamptz - interval '1 day 02:00:00'
select count(*) from events where ts >= '2026-01-03'::timestamptz - interval '1 day ago'
select count(*) from events where ts >= '2026-01-03'::timestamptz - interval '.5 day'
select count(*) from events where ts >= '2026-01-03'::timestamptz - interval '1 day 2'
select count(*) from events where ts >= '2026-01-03'::timestamptz - interval '1 day 2 hours'
select count(*) from events where ts >= '2026-01-03'::timestamptz - interval '1 day -2:30'
select count(*) from events where ts >= '2026-01-03'::timestamptz - interval 'P1DT2H'
select count(*) from events where ts >= '2026-01-03'::timestamptz - interval '@ 1 day'
select count(*) from events where ts >= '2026-01-03'::timestamptz - interval '1 day' day
select count(*) from events where ts >= '2026-01-03'::timestamptz - interval '1 2:03' day to hour
select count(*) from events where ts >= '2026-01-03'::timestamptz - interval '90' minute
select count(*) from events where ts >= '2026-01-03'::timestamptz - interval '1.5' day
select count(*) from events where ts >= '2026-01-03'::timestamptz - '1 day 2'::interval
select count(*) from events where ts >= /* the day */ timestamptz '2026-01-03' -- /* before */
select count(*) from events where ts >= '2026-01-03'::timestamptz -- /* less
select count(*) from events where ts >= '2026-01-03'::timestamptz - interval '1 day' and ts < '2026-01-03'::timestamptz - interval '1 day ago'
select max(ts) - interval '1 day ago' from events
select max(ts) - interval '1 day 02:00', max(ts) - interval '1 day', max(ts) - interval '.5 day' from events
select shop, max(ts) - interval '1 day 2' from events group by shop order by max(ts) - interval '1 day 2' desc, shop
select avg(qty) /* over /* all */ shops */ + 1 from events
select kind, avg(price) + .5, - avg(qty), + avg(qty) from events group by kind
select shop, count(all qty) / 7.0, avg(all price) from events group by shop having avg(all price) > .5
-- numbers as Postgres writes them
select avg(qty) + 1_000 from events
select avg(qty) + 0x1F, avg(qty) + 0o17, avg(qty) + 0b11 from events
select id from events where id < 3 union all select id + 1_000 from events where id < 3
select id from events where id < 3 union all select id + 0o17 from events where id < 3
select count(*) from events where id in (select id + 1_000 from events)
select count(*) from (select distinct qty % 1_0 from events) s
select count(*) from events group by shop having avg(qty) > 1_0
select count(*) from events where exists (select 1_0 from shops where id = 1)
select avg(qty) + 1a from events
select avg(qty) + 1e5_0 from events
select avg(qty) + 1.5_0 from events
select avg(qty) + $1x from events
select max(id) over_all, avg(qty)a, 1as b from events
-- a string with its type before it, cast again: Postgres casts to the type before it first
select count(*) from events where id < int '7'::double precision / 2
select count(*) from events where id < numeric(3, 1) '7'::integer / 2
select count(*) from events where day < timestamptz '2026-01-02'::date
select count(*) from events where id < '7'::integer and day between '2026-01-02'::date and '2026-01-05'::date
-- a plus sign makes a double precision of a string without a type
select count(*) from events where id = +'9007199254740993'
select count(*) from events where large = + ('14300000100')
select count(*) from events where id < 3 or large between +'13000000090' and +('13000000092')
select id from events where large + 9007186254740901 = +'9007199254740993'
select id from events where large + 9007186254740901 = +$$9007199254740993$$
select id from events where large + 9007186254740901 = (+('9007199254740993'))
select id from events where large + 9007186254740901 in (+'9007199254740993', 4)
select case when large + 9007186254740901 = + +'9007199254740993' then 1 else +2 end as c, count(*) from events group by 1
select id + (1), qty+(2), id + 3, +id, + 4 from events where id = +5 or id = (6)+(1)
-- tests for NULL of what the last step computes
select shop, avg(price) is not null, sum(qty) is null, (avg(qty) + 1) is not null as c from events group by shop
select kind, avg(price) from events where id < 90 group by kind having avg(qty) is not null
