-- name: upsert
-- What the heap shows and the seam does not, or not so: the heap's image becomes a correction.
insert into {delta} as d ({columns}, _op, _version)
select {h_columns}, 0, nextval('thermocline.delta_version') from {heap} h
 where {h_within} and not exists (select from {seam} s where {s_within} and {s_is_h}
     and record_image_eq(row({s_columns}), row({h_columns})))
on conflict ({key_columns}) do update set {columns_from_excluded}, _op = 0, _version = excluded._version, _folded = null

-- name: lacking
select count(*) from {seam} s where {s_within} and not exists (select from {heap} h where {h_within} and {s_is_h})

-- name: tombstone
-- What the seam shows and the heap does not have is deleted: only where the heap proves it.
insert into {delta} as d ({columns}, _op, _version)
select {s_columns}, 1, nextval('thermocline.delta_version') from {seam} s
 where {s_within} and not exists (select from {heap} h where {h_within} and {s_is_h})
on conflict ({key_columns}) do update set {columns_from_excluded}, _op = 1, _version = excluded._version, _folded = null
