"""`thermocline advise`: the documented decision, with its reason and what to type."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from tests.postgres.conftest import Shop
from tests.postgres.events_table import EVENTS

from thermocline.core.modes.advice import Needs, advise
from thermocline.core.modes.mode import MIRRORED, MIRRORED_HEAP_RETENTION, TIERED, TIERED_KEEP_HEAP, Mode
from thermocline.core.names import parse_table_name
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
    advice = advise_table(shop.dsn, parse_table_name(f"public.{table}"), needs)
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
    shop.run(_EVENTS)
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
    advice = advise_table(shop.dsn, parse_table_name("public.events"), Needs(keep_everything=keep_everything))
    assert advice.lines[2:] == said
