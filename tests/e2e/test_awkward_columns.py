"""Columns called like the variables of our trigger functions, and key types without a hash function."""

from __future__ import annotations

from collections.abc import Callable

from tests.twin import Spanning

TABLE = """
create table {schema}.events (
    "requested" integer not null, ts timestamptz not null, "found" integer, "tg_op" text, "seen" text, "moves" boolean,
    "statement_t" bigint,
    "statement_epoch" text, "old" text, "new" text, "h" integer, "d" integer, "c" text, "t" bigint,
    "table_id" bigint default 7,
    "Ev""en t" text,
    mask bit(8) not null,
    primary key ("requested", ts, mask)
)"""
ROWS = """
insert into events ("requested", ts, "found", "tg_op", "old", mask)
select i, '2026-01-01 00:00+00'::timestamptz + i * interval '1 day', i, 'x' || i, 'o', i::bit(8)
    from generate_series(1, 110) i"""


def test_names_of_our_own_variables_are_only_names(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(table=TABLE, rows=ROWS)
    for _ in range(2):
        spanning.both(
            'update events set "found" = "found" + 1, "statement_t" = 5, "new" = "old" || \'!\' where '
            '"requested" in (3, 100) returning *'
        )
        spanning.both(
            'update events set ts = ts + interval \'1 hour\', "moves" = true where "requested" in (4, 101) returning *'
        )
        spanning.both('delete from events where "requested" in (5, 102) returning *')
        spanning.both(
            "insert into events (\"requested\", ts, \"tg_op\", mask) values (500, '2025-05-05 00:00+00', 'q', "
            "B'00000001') returning *"
        )
        spanning.assert_same_rows()
        spanning.tier()
        spanning.assert_same_rows()
        spanning.both('delete from events where "requested" = 500 returning *')
    spanning.fold()
    spanning.assert_same_rows()
