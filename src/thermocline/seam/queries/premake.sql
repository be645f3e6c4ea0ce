-- name: highest_beyond
select thermocline.axis(max(s.{tier_key})) from {spill} s where s.{tier_key} >= {bound}

-- name: zone
select coalesce((select split_part(c, '=', 2) from pg_db_role_setting s, unnest(s.setconfig) c
                  where s.setdatabase = (select oid from pg_database where datname = current_database())
                      and s.setrole = 0
                    and lower(split_part(c, '=', 1)) = 'timezone'),
                        (select reset_val from pg_settings where name = 'TimeZone'))

-- name: spilled
select exists (select 1 from {spill} s where s.{tier_key} >= {lo} and s.{tier_key} < {hi})

-- name: hold
create temporary table thermocline_moved on commit drop as
select s.* from {spill} s where s.{tier_key} >= {lo} and s.{tier_key} < {hi}

-- name: take_out
delete from {spill} s where s.{tier_key} >= {lo} and s.{tier_key} < {hi}

-- name: make
create table {partition} partition of {heap} for values from ({lo_literal}) to ({hi_literal})

-- name: put_in
insert into {partition} ({writable}) overriding system value select {writable} from pg_temp.thermocline_moved
