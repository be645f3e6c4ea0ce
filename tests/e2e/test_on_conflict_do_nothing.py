"""ON CONFLICT DO NOTHING on the seam: refused where the statement's text shows it, nowhere else."""

from __future__ import annotations

import psycopg
import pytest
from tests.twin import Spanning

ROW = "(9001, '2026-04-05 00:00+00', 1)"


@pytest.mark.conforms("C-043", "C-044")
def test_on_conflict_do_nothing_is_refused_where_the_text_shows_it_and_only_there(spanning: Spanning) -> None:
    seam = spanning.seam
    for text in (
        f"insert into events (id, ts, v) values {ROW} on conflict do nothing",
        f'INSERT INTO "public_all"."events" AS e (id, ts, v) VALUES {ROW} ON CONFLICT DO NOTHING RETURNING id',
        (
            f"with x as (insert into public_all . events (id, ts, v) values {ROW} on /* any */ conflict\n do -- "
            "now\n nothing) select 1"
        ),
        "insert into events (id, ts, v, note) select 9001, '2026-04-05 00:00+00', 1, 'it''s' on conflict do nothing",
    ):
        with pytest.raises(
            psycopg.errors.FeatureNotSupported, match=r"ON CONFLICT does not work on the seam public_all\.events"
        ):
            seam.execute(text.encode())
    with pytest.raises(psycopg.errors.FeatureNotSupported), seam.transaction():
        seam.execute(
            "insert into events (id, ts, v) values (%s, %s, 1) on conflict do nothing",
            [9001, "2026-04-05 00:00+00"],
            prepare=True,
        )
    assert seam.execute("select count(*) from events where id = 9001").fetchall() == [(0,)]
    for text in (
        (
            "insert into events (id, ts, v, note) values (9001, '2026-04-05', 1, 'insert into events on conflict "
            "do nothing') returning note"
        ),
        (
            "insert into events (id, ts, v, note) values (9002, '2026-04-05 00:00+00', 1, e'\\'on conflict do "
            "nothing') returning note"
        ),
        (
            "insert into events (id, ts, v, note) values (9003, '2026-04-05', 1, $$on conflict do nothing$$) /* "
            "on conflict do nothing */"
        ),
    ):
        spanning.both(text)
    seam.execute("create table public.other (id bigint primary key)")
    other = "insert into public.other values (1) on conflict do nothing returning id"
    seam.execute(
        f"with o as ({other}) insert into events (id, ts, v) select 9004, '2026-04-05 00:00+00', 1 from o".encode()
    )
    seam.execute(
        f"with e as (insert into events (id, ts, v) values (9005, '2026-04-05', 1) returning id) {other}".encode()
    )
    spanning.twin.execute(
        "insert into events (id, ts, v) values (9004, '2026-04-05 00:00+00', 1), (9005, '2026-04-05', 1)"
    )
    spanning.assert_same_rows()


@pytest.mark.conforms("C-044")
def test_hidden_in_a_function_a_hot_key_is_a_unique_violation_and_a_cold_one_an_upsert(spanning: Spanning) -> None:
    spanning.tier()
    body = "insert into public_all.events (id, ts, v) values ($1, $2, 77) on conflict do nothing"
    spanning.seam.execute(
        f"create function public.hide(bigint, timestamptz) returns void language sql as $$ {body} $$".encode()
    )
    with pytest.raises(psycopg.errors.UniqueViolation):
        spanning.seam.execute("select public.hide(id, ts) from twin.events where id = 395")
    spanning.seam.execute("select public.hide(id, ts) from twin.events where id = 20")
    assert spanning.query("select v from events where id = 20") == [(77,)]
    spanning.twin.execute("update events set v = 77, note = 'd', amount = null, tags = null, doc = null where id = 20")
    spanning.assert_same_rows()
