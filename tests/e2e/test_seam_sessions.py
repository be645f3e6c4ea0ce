"""The seam in sessions: what reaches the delta, savepoints, functions, users' triggers, prepared statements, locks,
narration."""

from __future__ import annotations

import psycopg
import pytest
from tests.e2e.orders import COLD, HOT
from tests.twin import Spanning
from tests.twin_transaction import TwinTransaction


@pytest.mark.conforms("C-083", "C-084", "C-085", "C-086", "C-090", "C-094")
def test_hot_rows_never_touch_the_delta_and_cold_rows_always_do(both_sides: TwinTransaction) -> None:
    delta = "thermocline_delta.public__events"
    both_sides.check_both(f"insert into events (id, ts) values (900, {HOT})")
    both_sides.check_both("update events set v = 1 where id in (195, 900)")
    both_sides.check_both("delete from events where id in (196, 900)")
    assert both_sides.count(delta) == 0
    both_sides.check_both(f"insert into events (id, ts) values (901, {COLD})")
    both_sides.check_both("update events set v = 1 where id = 5")
    both_sides.check_both("delete from events where id = 6")
    assert (both_sides.count(delta, "_op = 0"), both_sides.count(delta, "_op = 1")) == (2, 1)


@pytest.mark.conforms("C-174")
def test_a_key_moved_by_bound_parameters_is_in_one_place_every_time(both_sides: TwinTransaction) -> None:
    for moment in (
        "2026-04-20 10:00+00",
        "2026-01-02 10:00+00",
        "2026-01-03 10:00+00",
        "2026-04-21 10:00+00",
        "2026-04-22 10:00+00",
    ):
        both_sides.check_both(
            "update events set ts = %s, v = v + %s, note = %s where id = %s returning *", [moment, 3, "moved", 50]
        )
        assert both_sides.count("public_all.events", "id = 50") == 1


@pytest.mark.conforms("C-050")
def test_savepoints_take_cold_writes_back(both_sides: TwinTransaction) -> None:
    both_sides.check_both(
        "savepoint a; update events set v = 1 where id in (5, 195); delete from events where id in (6, 196);"
        f"insert into events (id, ts) values (900, {COLD}); rollback to savepoint a"
    )
    assert both_sides.count("thermocline_delta.public__events") == 0
    both_sides.check_both("savepoint b; update events set v = 2 where id in (5, 195); release b")
    both_sides.check_both("update events set v = v + 1 where id in (5, 195) returning v")


@pytest.mark.conforms("C-050", "C-069")
def test_writes_work_in_functions_that_catch_errors_and_in_prepared_statements(both_sides: TwinTransaction) -> None:
    for path in ("public_all, public", "twin"):
        schema = "seamside" if path != "twin" else "twinside"
        both_sides.conn.execute(f"create schema {schema}".encode())
        both_sides.conn.execute(
            f"create function {schema}.add(which bigint, amount int) returns int language plpgsql set "
            f"search_path = {path} as $$"
            " declare made int; begin begin update events set v = v + amount where id = which returning v into made;"
            " exception when check_violation then update events set v = 0 where id = which returning v into made; end;"
            " return made; end $$".encode()
        )
    for key, amount in ((5, 3), (195, 3), (5, -1000), (195, -1000), (5, 1), (195, 1), (999, 1)):
        ours = both_sides.conn.execute("select seamside.add(%s, %s)", [key, amount]).fetchone()
        assert ours == both_sides.conn.execute("select twinside.add(%s, %s)", [key, amount]).fetchone()
        both_sides.check_both("select count(*) from events")
    for number in range(8):
        both_sides.check_both(
            "update events set v = v + %s where id = %s returning v", [number, 5 + 190 * (number % 2)]
        )


def test_deferred_foreign_keys_are_checked_at_the_end_for_cold_rows_too(both_sides: TwinTransaction) -> None:
    late = (
        f"set constraints all deferred; insert into events (id, ts, kind) values (900, {COLD}, 'late');"
        " update events set kind = 'late' where id = 5;"
    )
    both_sides.check_both(f"{late} insert into kinds values ('late'); set constraints all immediate")
    both_sides.check_both(late.replace("late", "never").replace("900", "901") + "set constraints all immediate")


def test_a_users_trigger_that_keeps_or_changes_a_row_is_obeyed(both_sides: TwinTransaction) -> None:
    for schema in ("public", "twin"):
        both_sides.conn.execute(
            f"create function {schema}.guard() returns trigger language plpgsql as $$ begin"
            " if tg_op = 'DELETE' then if old.id = 195 then return null; end if; return old; end if;"
            " if new.note = 'no' then return null; end if; new.note := coalesce(new.note, '') || '+'; return "
            "new; end $$;"
            f"create trigger guard before insert or update or delete on {schema}.events for each row execute"
            f" function {schema}.guard()".encode()
        )
    both_sides.check_both("update events set note = 'no' where id in (195, 196) returning *")
    both_sides.check_both("update events set note = 'yes' where id in (195, 196) returning *")
    both_sides.check_both("delete from events where id in (195, 196) returning id")
    both_sides.check_both(
        f"insert into events (id, ts, note) values (900, {COLD}, 'no'), (901, {COLD}, 'yes'), (902, {HOT}, "
        "'no') returning *"
    )


def test_a_users_trigger_sees_an_insert_where_a_row_of_the_lake_is_updated(both_sides: TwinTransaction) -> None:
    """By contract: the row's new image enters the spill; a row that only the lake holds leaves without firing
    anything."""
    both_sides.conn.execute(
        "create table public.heard (what text, id bigint);"
        "create function public.hear() returns trigger language plpgsql as"
        " $$ begin insert into public.heard values (tg_op, coalesce(new.id, old.id)); return null; end $$;"
        "create trigger hear after insert or update or delete on public.events for each row execute function "
        "public.hear()"
    )
    for statement in ("update events set v = 1 where id in (5, 195)", "delete from events where id in (6, 196)"):
        assert both_sides.ours(statement).tag.endswith(" 2")
    heard = both_sides.conn.execute("select what, id from public.heard order by id").fetchall()
    assert heard == [("INSERT", 5), ("UPDATE", 195), ("DELETE", 196)]


@pytest.mark.conforms("C-071")
def test_a_read_only_transaction_reads_both_tiers_and_takes_no_transaction_id(orders: Spanning) -> None:
    reader = orders.session()
    reader.execute("set transaction isolation level repeatable read, read only")
    assert reader.execute("select count(*) from events").fetchone() == (200,)
    assert reader.execute("select pg_current_xact_id_if_assigned()").fetchone() == (None,)
    reader.rollback()


@pytest.mark.conforms("C-036", "C-037", "C-038")
def test_the_seam_has_the_heaps_columns_and_the_heaps_name_means_the_heap(orders: Spanning) -> None:
    columns = (
        "select attname, atttypid::regtype::text, atttypmod, attcollation from pg_attribute where attrelid = "
        "'{}'::regclass and attnum > 0"
    )
    assert orders.query(columns.format("public_all.events")) == orders.query(columns.format("public.events"))
    assert orders.query("select count(*) from public.events") == [(21,)]
    plain = orders.session("public", autocommit=True)
    assert plain.execute("select count(*) from events").fetchone() == (21,)


@pytest.mark.conforms("C-197")
def test_routing_is_narrated_when_asked_for_and_only_then(both_sides: TwinTransaction) -> None:
    said: list[str] = []
    both_sides.conn.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
    statement = f"insert into events (id, ts) values (900, {COLD}), (901, {HOT})"
    both_sides.ours(statement)
    assert said == []
    both_sides.conn.execute("set local thermocline.explain = on")
    both_sides.ours("update events set v = 1 where id in (5, 195)")
    both_sides.ours("delete from events where id in (6, 196)")
    both_sides.ours(statement.replace("90", "91"))
    # Rows of one statement come in no particular order.
    assert sorted(line.split(": ")[-1] for line in said) == sorted(
        [
            "from the lake to the spill and the delta",
            "from the heap to the heap",
            "cold, a tombstone in the delta",
            "hot, from the heap",
            "cold, into the spill and the delta",
            "hot, into the heap",
        ]
    )
    assert all("public.events, ts = 2026-0" in line for line in said)


def test_null_given_for_an_identity_column_draws_the_next_value(both_sides: TwinTransaction) -> None:
    """By contract: a trigger cannot tell NULL from DEFAULT."""
    for key, moment in ((900, COLD), (901, HOT)):
        made = both_sides.ours(f"insert into events (id, ts, serial) values ({key}, {moment}, null) returning serial")
        assert made.rows[0][0] > 1000


@pytest.mark.conforms("C-069")
def test_prepared_statements_and_functions_follow_the_cut_line(spanning: Spanning) -> None:
    spanning.seam.execute("prepare total as select count(*), sum(v), max(ts) from events")
    spanning.seam.execute("prepare bump (bigint) as update events set v = v + 1 where id = $1 returning v")
    spanning.seam.execute(
        "create function public.total() returns bigint language plpgsql stable set search_path = public_all, public as"
        " $$ begin return (select sum(v) from events); end $$"
    )

    def check() -> None:
        expected = spanning.twin.execute("select count(*), sum(v), max(ts) from events").fetchall()
        for _ in range(7):  # past the five runs after which a generic plan may be kept
            assert spanning.query("execute total") == expected
            assert spanning.query("select public.total()") == [(expected[0][1],)]
        for key in (10, 390):
            spanning.twin.execute("update events set v = v + 1 where id = %s", [key])
            assert (
                spanning.query(f"execute bump ({key})")
                == spanning.twin.execute("select v from events where id = %s", [key]).fetchall()
            )

    check()
    assert len(spanning.tier().moved) == 3
    check()
    spanning.both("insert into events (id, ts, v) values (900, '2026-06-01 00:00+00', 1)")
    assert len(spanning.tier().moved) == 1
    check()
    spanning.assert_same_rows()


def test_a_value_given_for_an_identity_column_that_is_always_generated_is_taken(both_sides: TwinTransaction) -> None:
    """By contract: a trigger cannot tell it from OVERRIDING SYSTEM VALUE."""
    for schema in ("public", "twin"):
        both_sides.conn.execute(f"alter table {schema}.events alter serial set generated always".encode())
    statement = f"insert into events (id, ts, serial) values (900, {COLD}, 5) returning serial"
    assert both_sides.ours(statement).rows == [(5,)]
    assert both_sides.twins(statement).state == "428C9"


@pytest.mark.conforms("C-045")
def test_for_update_on_the_seam_locks_no_row_and_on_the_heap_it_does(orders: Spanning) -> None:
    one, two = orders.session(), orders.session()
    attempt = b"select id from public.events where id = 195 for update nowait"
    one.execute("select id from public_all.events where id in (5, 195) for update")
    assert two.execute(attempt).fetchall() == [(195,)]
    two.rollback()
    one.execute("select id from public.events where id = 195 for update")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        two.execute(attempt)
    one.rollback()
    two.rollback()
