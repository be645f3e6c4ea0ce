-- The axis: each tier key as a 64-bit number, and back. Exact integer arithmetic; the ends stand for the infinities.
-- They name nothing in our schema: they are inlined with the rights of the reader, who may have none there.
-- Postgres' last thirty years (294247 to 294276) lie past 2^63 microseconds and share the position below the upper end.
create or replace function thermocline.axis(smallint) returns bigint
    language sql immutable strict parallel safe return $1::bigint;

create or replace function thermocline.axis(integer) returns bigint
    language sql immutable strict parallel safe return $1::bigint;

create or replace function thermocline.axis(bigint) returns bigint
    language sql immutable strict parallel safe return $1;

create or replace function thermocline.axis(date) returns bigint language sql immutable strict parallel safe
    return case when isfinite($1) then ($1 - date '1970-01-01')::bigint
                when $1 < date '1970-01-01' then -9223372036854775808 else 9223372036854775807 end;

create or replace function thermocline.axis(timestamp) returns bigint language sql immutable strict parallel safe
    return case when isfinite($1) then least(extract(epoch from $1) * 1000000, 9223372036854775806)::bigint
                when $1 < timestamp '1970-01-01' then -9223372036854775808 else 9223372036854775807 end;

create or replace function thermocline.axis(timestamptz) returns bigint language sql immutable strict parallel safe
    return case when isfinite($1) then least(extract(epoch from $1 at time zone 'UTC') * 1000000,
                                             9223372036854775806)::bigint
                when $1 < timestamptz '1970-01-01 00:00+00' then -9223372036854775808 else 9223372036854775807 end;
