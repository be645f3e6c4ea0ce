"""Triggers of the user's that say no or change a row's key: the seam does what they say to a row that only the lake
holds, too."""

from __future__ import annotations

import pytest
from tests.twin_transaction import TwinTransaction

_GUARD = """
create function {schema}.guard() returns trigger language plpgsql as $$
begin
    if new.note = 'no' then return null; end if;
    if new.note = 'moved' then new.id := new.id + 5000; end if;
    if new.note = 'rounded' then new.ts := date_trunc('day', new.ts); end if;
    return new;
end $$;
create trigger guard before insert or update on {schema}.events for each row execute function {schema}.guard();
"""


@pytest.fixture
def guarded(both_sides: TwinTransaction) -> TwinTransaction:
    for schema in ("public", "twin"):
        both_sides.conn.execute(_GUARD.format(schema=schema).encode())
    return both_sides


@pytest.mark.parametrize(
    "change",
    [
        "note = 'no'",
        "note = 'no', ts = ts + interval '1 hour'",
        "note = 'no', id = id + 1000",
        "note = 'moved'",
        "note = 'moved', v = v + 1, id = id + 1000",
        "note = 'rounded'",
    ],
)
@pytest.mark.parametrize("row", [21, 190], ids=["cold", "hot"])
def test_what_a_trigger_says_holds_for_rows_of_both_tiers(guarded: TwinTransaction, change: str, row: int) -> None:
    guarded.check_both(f"update events set {change} where id = {row} returning id, ts, note")
    guarded.check_both("update events set v = v + 1 where id in (21, 190, 5021, 5190, 6021, 6190) returning id, ts, v")
