"""The verdict on an observation: pure, so each condition is seen good, late and red without waiting for anything."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from thermocline.core.health.finding import Finding
from thermocline.core.health.health_conditions import CONDITIONS, concerning, judge_age, judge_health
from thermocline.core.health.health_observation import (
    ForeignServerSeen,
    HealthLimits,
    HealthObservation,
    ProblemSeen,
    TableSeen,
    WarehouseSeen,
    WorkerSeen,
)
from thermocline.ops.health.bounded_look import BoundedLook
from thermocline.ops.health.observer import _in_turn

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
LIMITS = HealthLimits(cycle_late_seconds=900, corrections_late_seconds=300)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


EVENTS = TableSeen(
    id=1,
    table="public.events",
    object_name="public__events",
    t=0,
    snapshot=1,
    lake="/lake/m.json",
    warehouse=None,
    registered_at=ago(86400),
    paused_since=None,
    cycle_at=ago(5),
    cycle_said="nothing to do",
    failing_since=None,
    waiting_rows=0,
    waiting_since=None,
)
WORKER = WorkerSeen(
    name="w",
    host="h",
    pid=1,
    started_at=ago(9000),
    seen_at=ago(2),
    cycle_started_at=None,
    cycle_finished_at=ago(8),
    cycle_seconds=0.4,
)
SERVER = ForeignServerSeen(name="thermocline_gateway", host="gw", port="5439", role="r", has_login=True, is_tried=True)
WAREHOUSE = WarehouseSeen(location="/lake", profile=None, tables=1, exists=True, seen="/lake can be read")
GOOD = HealthObservation(
    at=NOW,
    limits=LIMITS,
    postgres_version="version 17",
    gateway_address="gw:5439",
    server=SERVER,
    warehouses=(WAREHOUSE,),
    lakes={"public.events": None},
    round_trips={"public.events": None},
    workers=(WORKER,),
    tables=(EVENTS,),
)


def only_problem(seen: HealthObservation) -> Finding:
    (found,) = [finding for finding in judge_health(seen) if finding.verdict != "ok"]
    assert found.fix, "what is not good comes with a remedy"
    return found


def test_a_stack_that_works_is_good_in_every_condition() -> None:
    findings = judge_health(GOOD)
    assert {finding.verdict for finding in findings} == {"ok"}
    assert len(findings) == len(CONDITIONS)


def test_each_condition_has_a_metric_of_its_own() -> None:
    assert len({condition.metric for condition in CONDITIONS}) == len(CONDITIONS)


PROBLEM = ProblemSeen(sentence="it is away", fix="bring it back")


@pytest.mark.parametrize(
    ("seen", "verdict", "sentence"),
    [
        (replace(GOOD, gateway=PROBLEM), "red", "gateway: it is away"),
        (replace(GOOD, catalog=PROBLEM, workers=(), tables=()), "red", "catalog: it is away"),
        (replace(GOOD, server=replace(SERVER, exists=False)), "red", "foreign server thermocline_gateway: not there"),
        (replace(GOOD, server=replace(SERVER, has_login=False)), "red", ".* role r has no login at gw port 5439"),
        (replace(GOOD, server=replace(SERVER, problem="refused")), "red", ".* gw port 5439: refused"),
        (replace(GOOD, server=replace(SERVER, is_no_gateway=True)), "red", ".* is no gateway of ours"),
        (replace(GOOD, server=replace(SERVER, serves_another=True)), "red", ".* serves another database"),
        (
            replace(GOOD, warehouses=(replace(WAREHOUSE, exists=False),)),
            "red",
            "warehouse: /lake does not exist, and 1 table has its files there",
        ),
        (
            replace(GOOD, warehouses=(replace(WAREHOUSE, exists=False, tables=0),)),
            "warning",
            "warehouse: /lake does not exist yet",
        ),
        (replace(GOOD, warehouses=(replace(WAREHOUSE, problem=PROBLEM),)), "red", "warehouse: it is away"),
        (replace(GOOD, warehouses=(replace(WAREHOUSE, free_bytes=5),)), "warning", "warehouse: /lake can be read"),
        (replace(GOOD, lakes={"public.events": PROBLEM}), "red", "lake of public.events: it is away"),
        (replace(GOOD, round_trips={"public.events": PROBLEM}), "red", "round trip of public.events: it is away"),
        (replace(GOOD, workers=()), "red", "worker: no worker is alive"),
        (replace(GOOD, workers=(), tables=(), lakes={}, round_trips={}), "warning", "worker: no worker is alive"),
        (
            replace(GOOD, workers=(replace(WORKER, seen_at=ago(31)),)),
            "red",
            "worker: no worker is alive; w was last seen at 2026-11-18 11:59:29 UTC",
        ),
        (
            replace(GOOD, workers=(replace(WORKER, cycle_finished_at=ago(901), cycle_started_at=ago(890)),)),
            "red",
            "worker: w has finished no cycle since 2026-11-18 11:44:59 UTC, its cycle runs since .*",
        ),
        (
            replace(GOOD, workers=(replace(WORKER, cycle_finished_at=ago(5000), progress_at=ago(100)),)),
            "warning",
            "worker: w has finished no cycle since .*, and goes on: its operation came on at 2026-11-18 11:58:20 UTC",
        ),
        (
            replace(GOOD, workers=(replace(WORKER, cycle_finished_at=None),)),
            "red",
            "worker: w has finished no cycle since 2026-11-18 09:30:00 UTC",
        ),
        (
            replace(GOOD, workers=(replace(WORKER, cycle_finished_at=None, started_at=ago(20)),)),
            "warning",
            "worker: w has not finished its first cycle since .*",
        ),
        (
            replace(GOOD, tables=(replace(EVENTS, failing_since=ago(61), cycle_said="No."),)),
            "red",
            "cycles of public.events: fail since 2026-11-18 11:58:59 UTC: No.",
        ),
        (
            replace(GOOD, tables=(replace(EVENTS, failing_since=ago(20), cycle_said="No."),)),
            "warning",
            "cycles of public.events: fail since .*",
        ),
        (
            replace(GOOD, tables=(replace(EVENTS, cycle_at=ago(901)),)),
            "red",
            "cycles of public.events: none has ended since 2026-11-18 11:44:59 UTC, more than 900 s",
        ),
        (
            replace(GOOD, tables=(replace(EVENTS, cycle_at=None, registered_at=ago(901)),)),
            "red",
            "cycles of public.events: none has ended since 2026-11-18 11:44:59 UTC, more than 900 s",
        ),
        (
            replace(GOOD, workers=(WORKER, replace(WORKER, name="x", cycle_started_at=ago(901)))),
            "warning",
            "worker x: its cycle runs since 2026-11-18 11:44:59 UTC",
        ),
        (
            replace(GOOD, tables=(replace(EVENTS, waiting_rows=1200, waiting_since=ago(301)),)),
            "red",
            "corrections of public.events: 1,200 wait, some since 2026-11-18 11:54:59 UTC, more than 300 s",
        ),
        (
            replace(GOOD, tables=(replace(EVENTS, waiting_rows=1, waiting_since=ago(301), paused_since=ago(400)),)),
            "warning",
            "corrections of public.events: .* for it is paused since .*",
        ),
    ],
)
def test_what_does_not_work_is_one_sentence_with_a_remedy(seen: HealthObservation, verdict: str, sentence: str) -> None:
    found = only_problem(seen)
    assert (found.verdict, bool(re.fullmatch(sentence, found.sentence))) == (verdict, True), found.sentence


def test_corrections_and_cycles_within_their_limits_are_good() -> None:
    waiting = replace(EVENTS, waiting_rows=9, waiting_since=ago(299))
    other = replace(WORKER, name="x", cycle_finished_at=ago(5000))
    resting = replace(EVENTS, cycle_at=ago(5000), paused_since=ago(4000))
    new = replace(EVENTS, cycle_at=None, registered_at=ago(3))
    seen = replace(GOOD, tables=(waiting, resting, new), workers=(other, WORKER))
    assert {finding.verdict for finding in judge_health(seen)} == {"ok"}, "one worker that finishes cycles is enough"


def test_without_postgres_nothing_is_said_of_what_only_postgres_knows() -> None:
    seen = HealthObservation(at=NOW, limits=LIMITS, postgres=PROBLEM, gateway_address="gw:5439")
    assert [(found.check, found.verdict) for found in judge_health(seen)] == [("postgres", "red"), ("gateway", "ok")]


def test_a_table_is_told_what_is_about_it_or_about_all() -> None:
    other = replace(EVENTS, table="public.other", failing_since=ago(100))
    findings = judge_health(replace(GOOD, tables=(EVENTS, other), gateway=PROBLEM))
    assert [found.check for found in concerning(findings, "public.events")] == ["gateway"]
    assert [found.check for found in concerning(findings, "public.other")] == ["gateway", "cycles of public.other"]


def test_an_observation_that_is_older_than_a_minute_is_red_itself() -> None:
    assert judge_age(60.0, LIMITS) is None
    for age in (60.1, None):
        found = judge_age(age, LIMITS)
        assert found is not None
        assert found.verdict == "red"


def test_a_look_that_hangs_is_reported_and_not_started_twice() -> None:
    hold, begun = threading.Event(), []

    def look() -> str:
        begun.append(1)
        hold.wait()
        return "seen"

    bounded = BoundedLook(look)
    for _ in range(3):
        bounded.start()
        assert bounded.finish(time.monotonic()) is None
    assert len(begun) == 1
    hold.set()
    assert bounded.finish(time.monotonic() + 60) == "seen"


def test_what_a_look_raises_is_raised_where_it_is_awaited() -> None:
    def look() -> str:
        raise OSError("away")

    bounded = BoundedLook(look)
    bounded.start()
    with pytest.raises(OSError, match="away"):
        bounded.finish(time.monotonic() + 60)


def test_a_round_trip_that_failed_is_tried_in_every_turn_until_it_succeeds() -> None:
    tables = tuple(replace(EVENTS, id=number, table=f"public.t{number}") for number in range(9))
    seen = {"public.t7": PROBLEM, "public.t8": None}
    turns = [[t.table for t in _in_turn(tables, turn, 3, None, first=seen)] for turn in range(3)]
    assert turns[0] == ["public.t7", "public.t0", "public.t1", "public.t2"]
    assert turns[2] == ["public.t6", "public.t7", "public.t8"]
