-- name: count_uncaptured
select count(*) from only {spill} h where {uncaptured}

-- name: correct_uncaptured
insert into {delta} as d ({columns}, _op, _version)
select {h_columns}, 0, nextval('thermocline.delta_version') from only {spill} h where {uncaptured}
on conflict ({key_columns}) do update set {columns_from_excluded}, _op = 0, _version = excluded._version, _folded = null

-- name: uncaptured
h.{tier_key} >= {t} {and_below} and not exists (select from {delta} d where {d_is_h} and d._op = 0 and d._folded is null
                                       and record_image_eq(row({d_columns}), row({h_columns})))

-- name: unaccounted
-- Rows that neither a correction nor the range as it was filled has: dropped with the spill, they would be lost.
select count(*) from only {spill} h
 where {condition} and not exists (select from pg_temp.thermocline_pending d where {d_is_h} and d._op = 0
                                      and record_image_eq(row({d_columns}), row({h_columns}))) {and_not_filled}

-- name: and_not_filled
-- What was filled went through the lake, which keeps neither a NaN's sign nor an array's unused bitmap of NULLs.
and not exists (select from {filled} f where {f_is_h} and (record_image_eq(row({f_columns}), row({h_columns}))
                                                                  or thermocline.reads_same(row({f_columns}),
                                                                      row({h_columns}))))
