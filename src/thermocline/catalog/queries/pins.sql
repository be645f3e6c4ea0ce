-- name: hold_still
lock table thermocline.read_pins in share mode

-- name: living
select p.id, p.table_id, t.schema_name, t.table_name, p.snapshot_id, p.metadata_location, p.holder, p.pinned_at,
       p.expires_at, c.s is distinct from p.snapshot_id as is_superseded, p.t
  from thermocline.read_pins p
  join thermocline.tables t on t.id = p.table_id
  join thermocline.cutline c on c.table_id = t.id
 where p.expires_at > clock_timestamp() and (%(table_id)s::bigint is null or p.table_id = %(table_id)s)
 order by p.expires_at, p.id

-- name: sweep
with dead as (
    select id from thermocline.read_pins where expires_at <= clock_timestamp() for update skip locked),
gone as (
    delete from thermocline.read_pins p using dead
     where p.id = dead.id and p.expires_at <= clock_timestamp() returning p.table_id),
counted as (
    insert into thermocline.swept_pins (table_id, pins) select table_id, count(*) from gone group by table_id
    on conflict (table_id) do update set pins = swept_pins.pins + excluded.pins)
select count(*) as pins from gone

-- name: swept
select t.schema_name, t.table_name, s.pins from thermocline.swept_pins s join thermocline.tables t on t.id = s.table_id

-- name: release
select thermocline.release_pin(%(pin)s)

-- name: was_taken
select %(pin)s between 1 and coalesce(
    pg_sequence_last_value(pg_get_serial_sequence('thermocline.read_pins', 'id')::regclass), 0)
