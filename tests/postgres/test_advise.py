"""`thermocline advise`: the documented decision, with its reason and what to type."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from psycopg.conninfo import make_conninfo
from tests.postgres.conftest import Shop
from tests.postgres.events_table import EVENTS

from thermocline.core.modes.advice import Needs, advise
from thermocline.core.modes.mode import MIRRORED, MIRRORED_HEAP_RETENTION, TIERED, TIERED_KEEP_HEAP, Mode
from thermocline.core.names import parse_table_name
from thermocline.errors import CannotRegister
from thermocline.ops.inspect.advise import advise_table

_EVENTS = "create table public.events (id bigint, ts timestamptz, primary key (id, ts)) partition by range (ts)"
_ENTITY = "create table public.customers (id bigint primary key, name text)"
_UNPARTITIONED = "create table public.orders (id bigint primary key, placed date)"
_LISTED = "create table public.listed (id bigint, region text, primary key (id, region)) partition by list (region)"
_TEXT_KEY = "create table public.texts (id text primary key) partition by range (id)"


@pytest.mark.conforms("C-009")
@pytest.mark.parametrize(
    ("table", "keep_everything", "trail_seconds", "mode", "reason"),
    [
        ("customers", False, False, MIRRORED, "no axis along which rows age: it is not partitioned"),
        ("orders", False, False, MIRRORED, r"PARTITION BY RANGE \(placed\) would make placed one"),
        ("listed", False, False, MIRRORED, "not by RANGE"),
        ("texts", False, False, MIRRORED, "a type that cannot be a tier key"),
        ("events", False, False, TIERED, "it ages along ts, Postgres need not keep what is old"),
        ("events", True, False, TIERED_KEEP_HEAP, "Postgres must keep every row"),
        ("events", False, True, MIRRORED_HEAP_RETENTION, "the lake must trail in seconds"),
        ("events", True, True, MIRRORED, "Postgres must keep every row, and the lake must trail in seconds"),
    ],
)
def test_each_answer_follows_from_the_table_and_from_what_is_wanted(
    shop: Shop, table: str, keep_everything: bool, trail_seconds: bool, mode: Mode, reason: str
) -> None:
    """The mirrored modes themselves come later; until then the advice says so, and what serves today."""
    shop.run(_EVENTS, _ENTITY, _UNPARTITIONED, _LISTED, _TEXT_KEY)
    needs = Needs(keep_everything=keep_everything, trail_seconds=trail_seconds)
    advice = advise_table(shop.dsn, parse_table_name(f"public.{table}"), needs, shop.settings)
    assert advice.mode == mode.name
    assert re.search(reason, advice.reason), advice.reason
    assert (advice.command is not None) == (mode in (TIERED, TIERED_KEEP_HEAP))


def test_what_is_not_built_yet_says_what_serves_today() -> None:
    advice = advise("public.events", "ts", None, Needs(trail_seconds=True))
    assert advice.lines[-1].endswith(
        "until then tiered serves it with a lake that trails by the tiering lag: "
        "thermocline register public.events --mode tiered"
    )
    assert "stays in Postgres alone" in advise("public.customers", None, "it is not partitioned", Needs()).lines[-1]


def test_the_command_prints_the_mode_the_reason_and_what_to_type(shop: Shop) -> None:
    shop.run(*EVENTS)
    command = [sys.executable, "-m", "thermocline", "advise", "public.events", "--dsn", shop.dsn, "--keep-everything"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "public.events: tiered keep-heap",
        "because it ages along ts, and Postgres must keep every row",
        "register it by: thermocline register public.events --mode tiered --keep-heap",
    ]
    told = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout)
    assert told["mode"] == "tiered keep-heap"


@pytest.mark.parametrize(
    ("keep_everything", "said"),
    [
        (True, ("it is registered so already",)),
        (
            False,
            (
                "it is registered already, as tiered keep-heap: unregister it first",
                "register it by: thermocline register public.events --mode tiered",
            ),
        ),
    ],
)
def test_a_table_that_is_registered_already_is_told_so(
    shop: Shop, keep_everything: bool, said: tuple[str, ...]
) -> None:
    shop.run(*EVENTS)
    shop.register(keep_heap=True)
    advice = advise_table(
        shop.dsn, parse_table_name("public.events"), Needs(keep_everything=keep_everything), shop.settings
    )
    assert advice.lines[2:] == said


@pytest.mark.parametrize(
    ("table", "reason", "remedy"),
    [
        (_EVENTS, "public.events has no partitions yet.", "Create its first partition, then register it."),
        (
            "create table public.events (id bigint, ts timestamptz) partition by range (ts)",
            "public.events has no primary key.",
            "Row identity is the primary key: ALTER TABLE … ADD PRIMARY KEY (…, tier key).",
        ),
        (
            f"{_EVENTS}; create table public.rest partition of public.events default",
            "public.events has a DEFAULT partition of its own, rest.",
            "Move its rows into range partitions and drop it; Thermocline needs that place for its spill.",
        ),
    ],
)
def test_what_register_would_refuse_is_said_before_it_is_tried(
    shop: Shop, table: str, reason: str, remedy: str
) -> None:
    """The same sentence, because it is the same check; and nothing is left behind."""
    shop.run(table)
    before = shop.traces()
    advice = advise_table(shop.dsn, parse_table_name("public.events"), Needs(), shop.settings)
    assert advice.lines[-2:] == (f"register refuses it now: {reason}", f"what to do: {remedy}")
    assert shop.traces() == before
    with pytest.raises(CannotRegister) as refused:
        shop.register()
    assert (str(refused.value), refused.value.hint) == (advice.refusal, advice.remedy)


def test_a_role_that_may_not_register_is_told_what_it_lacks(
    shop: Shop, bare_database: str, make_role: Callable[[], str]
) -> None:
    role = make_role()
    bare = shop.session(bare_database)
    for statement in EVENTS:
        bare.execute(statement.encode())
    bare.execute(f"grant usage on schema public to {role}".encode())
    mine = make_conninfo(bare_database, user=role, password="secret")
    advice = advise_table(mine, parse_table_name("public.events"), Needs(), shop.settings)
    assert advice.refusal == f"Role {role} may not create schemas in database {bare.info.dbname}."
    assert "GRANT CREATE ON DATABASE" in str(advice.remedy)
    assert advise_table(bare_database, parse_table_name("public.events"), Needs(), shop.settings).refusal is None
    assert bare.execute("select to_regnamespace('thermocline')").fetchone() == (None,)


def test_a_tier_key_whose_type_has_a_precision_ages(shop: Shop) -> None:
    shop.run(
        "create table public.events (id bigint, ts timestamptz(3), primary key (id, ts)) partition by range (ts)",
        "create table public.p partition of public.events for values from ('2026-01-01') to ('2026-02-01')",
    )
    advice = advise_table(shop.dsn, parse_table_name("public.events"), Needs(), shop.settings)
    assert (advice.mode, advice.refusal) == (TIERED.name, None)
    shop.register()
