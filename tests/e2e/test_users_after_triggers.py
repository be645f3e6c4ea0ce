"""Triggers of the user's that change rows after they were written: the delta ends up with the heap's last image of
every key.

A nested change is captured before the change that caused it, whose own image is older by then. So each of these loses a
change wherever the capture believes the image that it was called with.

No reaction depends on the order in which a statement's rows fire: the twin's rows lie in other pages, and after an
analyze its plan may return them in another order. So no statement moves one row of an id to where another row of that
id stands before the statement.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.e2e.orders import ORDERS, ORDERS_ROWS
from tests.twin import Spanning, assert_same_rows
from tests.twin_transaction import TwinTransaction

_REACT = """
create function {schema}.react() returns trigger language plpgsql as $$
declare
    o {schema}.events := case when tg_op <> 'INSERT' then old end;
    n {schema}.events := case when tg_op <> 'DELETE' then new end;
begin
    case n.note
        when 'again' then update {schema}.events set v = v + 1000, note = 'done' where id = n.id and ts = n.ts;
        when 'gone' then delete from {schema}.events where id = n.id and ts = n.ts;
        when 'moved' then update {schema}.events set id = id + 5000, note = 'away' where id = n.id and ts = n.ts;
        when 'older' then update {schema}.events set ts = ts - interval '3 years', note = 'aged'
            where id = n.id and ts = n.ts;
        when 'younger' then update {schema}.events set ts = '2026-04-20', note = 'now' where id = n.id and ts = n.ts;
        when 'deeper' then
            update {schema}.events set v = v - 1, note = case when v > 3 then 'deeper' else 'bottom' end
                where id = n.id and ts = n.ts;
        when 'caught' then
            begin
                update {schema}.events set v = v + 1000, note = 'kept' where id = n.id and ts = n.ts;
                begin
                    update {schema}.events set v = v + 1, note = 'undone' where id = n.id and ts = n.ts;
                    raise exception 'no';
                exception when raise_exception then null;
                end;
            exception when division_by_zero then null;
            end;
        when 'reborn' then
            delete from {schema}.events where id = n.id and ts = n.ts;
            insert into {schema}.events (id, ts, v, note, serial, number) values (n.id, n.ts, n.v + 1, 'born', 0, 0);
        when 'others' then
            update {schema}.events set v = v + 100, note = 'touched'
                where ts < '2026-02-01' and id between 9001 and 9099 and id <> n.id;
            insert into {schema}.events (id, ts, v, note, serial, number) values (n.id + 700, n.ts, 1, 'child', 0, 0)
                on conflict do nothing;
        else null;
    end case;
    if o.note = 'phoenix' and n.note is distinct from 'others' then
        insert into {schema}.events (id, ts, v, note, serial, number) values (o.id, o.ts, o.v, 'risen', 0, 0)
            on conflict (id, ts) do update set note = 'rose';
    end if;
    return null;
end $$;
create {kind} trigger {name} after insert or update or delete on {schema}.events {timing} for each row
    execute function {schema}.react();
"""
_REACTIONS = ("again", "gone", "moved", "older", "younger", "deeper", "caught", "reborn", "others")


def _trigger(schema: str, name: str = "aaa", kind: str = "", timing: str = "") -> bytes:
    return _REACT.format(schema=schema, kind=kind, name=name, timing=timing).encode()


def _statements(note: str, spread: str = "'2026-01-20 10:00+00'") -> tuple[str, ...]:
    """The same reaction set off by every kind of statement, on historical rows that the heap holds and on new ones."""
    return (
        f"insert into public.events (id, ts, v, note) values (9001, {spread}, 5, 'x'), (9002, {spread}, 6, 'x'),"
        f" (9003, {spread}, 7, 'phoenix')",
        f"update public.events set v = 9, note = '{note}' where id = 9001 returning id, v, note",
        f"update public.events set note = '{note}' where id in (9001, 9002, 9003) returning id, v",
        f"insert into public.events (id, ts, v, note) values (9004, {spread}, 5, '{note}') returning id, v",
        f"insert into public.events (id, ts, v, note) values (9001, {spread}, 5, '{note}'), (9005, {spread}, "
        f"5, '{note}')"
        f" on conflict (id, ts) do update set note = excluded.note, v = 3",
        f"with a as (update public.events set v = v + 1, note = '{note}' where id = 9002),"
        f" b as (insert into public.events (id, ts, v, note) values (9006, {spread}, 5, '{note}'))"
        " delete from public.events where id in (9003, 9001)",
        f"merge into public.events e using (values (9001, {spread}::timestamptz), (9002, {spread}), (9003, "
        f"{spread}), (9007, {spread}))"
        " w(id, ts)"
        " on e.id = w.id and e.ts = w.ts when matched and w.id = 9003 then delete when matched then update "
        f"set note = '{note}', v = 4"
        # in any order
        f" when not matched then insert (id, ts, v, note, serial, number) values (w.id, w.ts, 8, '{note}', 0, 0)",
        "update public.events set ts = ts - interval '1 hour', note = 'phoenix' where id > 9000 returning id",
        # A shift of its own for each year: with the same shift for all, 'older' moves a row to where an older row of
        # that id still stands or has already left, depending on which of the two fires first.
        "update public.events set ts = ts + extract(year from ts) * interval '1 minute',"
        f" note = '{note}' where id > 9000 returning id",
        "delete from public.events where id > 9000 returning id",
    )


@pytest.mark.parametrize("name", ["aaa", "thermocline_capturf"], ids=["fires before ours", "fires after ours"])
@pytest.mark.parametrize("note", _REACTIONS)
@pytest.mark.conforms("C-229")
def test_a_row_that_a_trigger_changes_again_reads_as_the_trigger_left_it(
    both_sides: TwinTransaction, note: str, name: str
) -> None:
    for schema in ("public", "twin"):
        both_sides.conn.execute(_trigger(schema, name))
    for statement in _statements(note):
        both_sides.check_both(statement)


@pytest.mark.parametrize("note", ["again", "gone", "older", "deeper", "reborn", "others"])
def test_a_deferred_trigger_changes_rows_at_the_end_of_the_transaction(both_sides: TwinTransaction, note: str) -> None:
    for schema in ("public", "twin"):
        both_sides.conn.execute(_trigger(schema, kind="constraint", timing="deferrable initially deferred"))
    for statement in _statements(note):
        both_sides.check_both(statement)
        both_sides.conn.execute("set constraints all immediate; set constraints all deferred")
        assert_same_rows(both_sides.conn)


@pytest.mark.parametrize("note", ["again", "gone", "moved", "reborn"])
@pytest.mark.parametrize("row", [21, 190], ids=["cold", "hot"])
def test_a_trigger_may_change_a_row_that_was_written_through_the_seam(
    both_sides: TwinTransaction, note: str, row: int
) -> None:
    for schema in ("public", "twin"):
        both_sides.conn.execute(_trigger(schema))
    both_sides.check_both(f"update events set note = '{note}' where id = {row} returning id")
    both_sides.check_both(
        f"update events set ts = ts + interval '1 hour', note = '{note}' where id = {row + 1} returning id"
    )
    both_sides.check_both("update events set v = v + 1 where id between 20 and 23 or id > 5000 returning id, v")
    both_sides.check_both("delete from events where id between 20 and 23 or id > 5000 returning id")


def test_a_trigger_that_puts_a_row_where_a_moved_one_was_keeps_it(both_sides: TwinTransaction) -> None:
    for schema in ("public", "twin"):
        both_sides.conn.execute(
            f"""create function {schema}.refill() returns trigger language plpgsql as $$
                begin
                    if new.note = 'moves' then
                        insert into {schema}.events (id, ts, v, note, serial, number)
                            values (new.id - 5000, new.ts, 1, 'refilled', 0, 0);
                    end if;
                    return null;
                end $$;
                create trigger refill after insert or update on {schema}.events for each row
                    execute function {schema}.refill()""".encode()
        )
    both_sides.check_both("update events set id = id + 5000, note = 'moves' where id in (21, 190) returning id")
    both_sides.check_both("update events set v = v + 1 where id in (21, 190, 5021, 5190) returning id, v, note")


def test_a_before_trigger_and_a_function_in_the_statement_may_change_a_row_of_the_same_statement(
    both_sides: TwinTransaction,
) -> None:
    for schema in ("public", "twin"):
        both_sides.conn.execute(
            f"""create function {schema}.bump(which bigint) returns integer language plpgsql as $$
                begin
                    update {schema}.events set v = v + 500 where id = which and note is distinct from 'bumped';
                    return 1;
                end $$;
                create function {schema}.early() returns trigger language plpgsql as $$
                begin
                    if new.id = 9003 then perform {schema}.bump(9002); end if;
                    return new;
                end $$;
                create trigger early before insert or update on {schema}.events for each row
                    execute function {schema}.early()""".encode()
        )
    at = "'2026-01-20 10:00+00'"
    both_sides.check_both(
        f"insert into public.events (id, ts, v) values (9001, {at}, 1), (9002, {at}, 2), (9003, {at}, 3)"
    )
    both_sides.check_both("update public.events set v = v + 1 where id in (9001, 9002, 9003)")
    for path, schema in (("public_all, public", "public"), ("twin", "twin")):
        both_sides.conn.execute("select set_config('search_path', %s, true)", [path])
        both_sides.conn.execute(
            f"insert into {schema}.events (id, ts, v) select i, {at}, case when i = 9012 then "
            f"{schema}.bump(9011) else 0 end"
            " from generate_series(9011, 9012) i".encode()
        )
    both_sides.check_both("select 1")


@pytest.mark.parametrize("keep_heap", [False, True], ids=["tiered", "keep-heap"])
def test_the_fold_carries_what_triggers_left_into_the_lake(
    make_spanning: Callable[..., Spanning], keep_heap: bool
) -> None:
    spanning = make_spanning(table=ORDERS, rows=ORDERS_ROWS, keep_heap=keep_heap)
    spanning.tier()
    for schema in ("public", "twin"):
        spanning.seam.execute(_trigger(schema))
    for number, note in enumerate(_REACTIONS):
        base = 9000 + 20 * number
        for statement in (
            (
                f"insert into public.events (id, ts, v, note) values ({base}, '2026-01-10', 5, '{note}'), "
                f"({base + 1}, '2026-01-10', 5, 'x')"
            ),
            f"update public.events set note = '{note}', v = 6 where id = {base + 1}",
        ):
            spanning.seam.execute(statement.encode())
            spanning.twin.execute(statement.replace("public.", "twin.").encode())
        spanning.assert_same_rows()
    if keep_heap:
        for statement in (
            "update public.events set note = 'again' where id between 20 and 30",
            "update public.events set note = 'gone' where id = 31",
        ):
            spanning.seam.execute(statement.encode())
            spanning.twin.execute(statement.replace("public.", "twin.").encode())
    spanning.assert_same_rows()
    spanning.fold()
    spanning.assert_same_rows()
    if keep_heap:
        assert spanning.query("select * from public.events except all select * from twin.events") == []
