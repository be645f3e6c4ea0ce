create or replace function thermocline.key_date(bigint) returns date language sql immutable strict parallel safe
    return case $1 when -9223372036854775808 then date '-infinity' when 9223372036854775807 then date 'infinity'
                  else date '1970-01-01' + $1::integer end;
