"""as_of: the lake's side of a table as it was published at an earlier moment."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.e2e.eager_pass import eager_pass
from tests.maintenance_ops import run_expire_snapshots
from tests.twin import Spanning

from thermocline.runtime.pg import connect_as_typed as connect

AS_OF = "select r from thermocline.as_of('public.events', %s) r"


def _now(spanning: Spanning) -> Any:
    return spanning.query("select clock_timestamp()")[0][0]


def _read(conn: psycopg.Connection[Any], moment: Any) -> list[tuple[Any, ...]]:
    return sorted(conn.execute(AS_OF, [moment]).fetchall(), key=repr)


@pytest.mark.conforms("C-082")
def test_the_lake_reads_as_it_was_published_at_a_moment(spanning: Spanning) -> None:
    """In both tiered modes the lake's side alone; both tiers at once come with the mirrored modes and the change
    log."""
    below = "select to_jsonb(e) from events e where ts < '2026-04-01 00:00+00'"
    before_all = _now(spanning)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="no lake version of") as none:
        spanning.seam.execute(AS_OF, [before_all])
    assert none.value.diag.message_hint == "The lake of this table holds nothing yet."
    spanning.tier()
    first, rows = _now(spanning), spanning.both(below)
    spanning.both("update events set v = v + 1000, tags = array['x', null] where id between 10 and 20")
    spanning.both("delete from events where id = 30")
    spanning.fold()
    second = _now(spanning)
    assert _read(spanning.seam, first) == rows
    assert _read(spanning.seam, second) == spanning.both(below)
    with pytest.raises(psycopg.errors.InvalidParameterValue) as too_old:
        spanning.seam.execute(AS_OF, [before_all])
    assert str(too_old.value.diag.message_hint).startswith("The oldest one is from 20")
    for place in ("public.events", "public_all.events"):
        with pytest.raises(
            psycopg.errors.FeatureNotSupported, match=r"what Postgres held .* is not kept: its mode is tiered"
        ) as missing:
            spanning.seam.execute("select thermocline.as_of(%s::text::regclass, %s, 'both')", [place, first])
        assert str(missing.value.diag.message_hint).startswith("Missing is every change in the lake")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="tiers are 'lake' or 'both', not 'heap'"):
        spanning.seam.execute("select thermocline.as_of('public.events', %s, 'heap')", [first])
    with closing(connect(spanning.dsn, autocommit=True)) as conn:
        conn.execute("create role as_of_reader login password 'secret'")
        try:
            dsn = make_conninfo(spanning.dsn, user="as_of_reader", password="secret")
            with closing(connect(dsn, autocommit=True)) as reader, pytest.raises(psycopg.errors.UndefinedTable):
                reader.execute(AS_OF, [first])
            conn.execute(
                "grant usage on schema public_all to as_of_reader; grant select on public_all.events to as_of_reader"
            )
            with closing(connect(dsn, autocommit=True)) as reader:
                assert _read(reader, first) == rows
        finally:
            conn.execute("drop owned by as_of_reader; drop role as_of_reader")
    # Past the retention of snapshots the oldest moment there is is named, and it can be read.
    with eager_pass(spanning) as context:
        assert run_expire_snapshots(context).counters["snapshots_expired"] >= 1
    with pytest.raises(psycopg.errors.InvalidParameterValue) as expired:
        spanning.seam.execute(AS_OF, [first])
    oldest = str(expired.value.diag.message_hint).removeprefix("The oldest one is from ").removesuffix(".")
    assert _read(spanning.seam, oldest) == _read(spanning.seam, second)
