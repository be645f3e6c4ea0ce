create or replace function thermocline.key_timestamp(bigint) returns timestamp
    language sql immutable strict parallel safe
    return case $1 when -9223372036854775808 then timestamp '-infinity'
                     when 9223372036854775807 then timestamp 'infinity'
                     else timestamp '1970-01-01' + make_interval(
                      days => (floor($1::numeric / 86400000000))::integer,
                      secs => mod(mod($1, 86400000000) + 86400000000, 86400000000)::double precision / 1000000) end;
