"""Passes over a plain Iceberg table: the journal, the order, the sentences, and what a failure or a disabled key
does."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from thermocline.catalog.maintenance.forced_passes import schedule_new_tables
from thermocline.catalog.maintenance.lake_tables import add_lake_table, read_lake_table_entry
from thermocline.catalog.maintenance.passes import close_dead_passes, pass_lock, prune_passes
from thermocline.catalog.maintenance.policies import apply_policy
from thermocline.catalog.safety import Owner
from thermocline.core.columns import LakeColumn
from thermocline.core.maintenance.bounds import Bounds
from thermocline.core.maintenance.outcome import Operation, Outcome
from thermocline.core.maintenance.plan import FormatChange, MaintenancePlan
from thermocline.core.names import TableName
from thermocline.core.policy.operations import ALL_DISABLED
from thermocline.core.policy.policy_layers import change_policy, parse_changes
from thermocline.errors import Paused
from thermocline.errors.maintenance import EngineUnknown, LakeTableNotMaintained, PassRunning
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.lake.commit.create_table import create_lake_table
from thermocline.maintain.commits.applier import Applier
from thermocline.maintain.context import PassContext
from thermocline.maintain.engines import named as engines
from thermocline.maintain.plans.planning import Planned, PlanRequest
from thermocline.maintain.policies import PolicyRequest, policy_of
from thermocline.maintain.run_pass import PassReport, PassRequest, run_pass
from thermocline.ops.admin.pause import pause, resume
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.settings import Settings

LAKE = TableName("lab", "readings")


class Scripted:
    """An engine whose operations do as a test says; one that the test does not speak of did one thing."""

    name = "scripted"

    def __init__(self, script: dict[str, Callable[[PassContext], Outcome]]) -> None:
        self.script = script
        self.ran: list[Operation] = []

    def run(self, plan: MaintenancePlan, applier: Applier) -> Outcome:
        operation = plan.operation
        self.ran.append(operation)
        if operation in self.script:
            return self.script[operation](applier.context)
        return Outcome(operation=operation, status="done", sentence="did one thing", counters={"things": 1})


def plan_one_thing(request: PlanRequest) -> Planned:
    """A plan that needs no look at the table; its step names the pass."""
    change = FormatChange(sentence="would do one thing", steps=(str(request.context.pass_id),))
    plan = MaintenancePlan(
        operation=request.operation, metadata_location="", snapshot=None, bounds=Bounds(), change=change
    )
    return Planned(plan=plan)


@dataclass(slots=True)
class Lab:
    """A lake table that Postgres knows nothing of, under maintenance by a scripted engine."""

    dsn: str
    settings: Settings
    owner: Owner
    engine: Scripted = field(default_factory=lambda: Scripted({}))

    def script(self, **script: Callable[[PassContext], Outcome]) -> None:
        self.engine = Scripted(script)

    def policy(self, *pairs: str, preset: str | None = None) -> None:
        changes = parse_changes(pairs, preset)
        with closing(self.connect()) as conn:
            apply_policy(conn, self.owner, lambda before: change_policy(before, changes))

    def run(self, operations: tuple[Operation, ...] = (), name: TableName = LAKE, **request: Any) -> PassReport:
        asked = PassRequest(operations=operations, **request)
        return run_pass(
            self.dsn,
            name,
            settings=self.settings,
            spark=no_spark,
            request=asked,
            engine=self.engine,
            planner=plan_one_thing,
        )

    def connect(self) -> psycopg.Connection[Any]:
        return connect(self.dsn, autocommit=True)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with closing(self.connect()) as conn:
            return conn.execute(query.encode()).fetchall()


def no_spark() -> SparkSession:
    raise AssertionError("no operation of these tests needs Spark")


@pytest.fixture
def lab(database: str, tmp_path: Path) -> Lab:
    column = LakeColumn(
        name="id", field_id=1, base_type="int8", pg_type="bigint", lake_type="long", form="native", required=True
    )
    made = create_lake_table(str(tmp_path), LAKE, (column,), "id", "none", table_uuid=uuid.uuid4())
    with closing(connect(database, autocommit=True)) as conn:
        lake_catalog().insert_table(conn, LAKE, made.metadata_location)
        add_lake_table(conn, LAKE)
        entry = read_lake_table_entry(conn, LAKE)
    assert entry is not None
    return Lab(dsn=database, settings=Settings(dsn=database, warehouse=str(tmp_path)), owner=Owner(lake_id=entry.id))


def boom(_context: PassContext) -> Outcome:
    raise ZeroDivisionError("by nought")


@pytest.mark.conforms("M-119", "M-150")
def test_a_failing_operation_does_not_stop_the_next_and_the_pass_shows_what_succeeded(lab: Lab) -> None:
    lab.script(compact=boom)
    report = lab.run(("compact", "expire_snapshots"))
    assert report.status == "failed"
    assert report.sentence == "compact: error: by nought; expire_snapshots: did one thing"
    ((phase, message, error, forced, policy, started, ended),) = lab.rows(
        "select phase, message, error, forced, policy ->> 'preset', started_at, ended_at from "
        "thermocline.op_log where kind = 'maintain'"
    )
    assert (phase, message, error, forced, policy) == (
        "abandoned",
        report.sentence,
        "compact: error: by nought",
        True,
        "modak",
    )
    assert started <= ended
    statuses = dict(lab.rows("select operation, status from thermocline.maintenance_status where lake_id is not null"))
    assert (statuses["compact"], statuses["expire_snapshots"], statuses["remove_orphans"]) == (
        "failed",
        "successful",
        "not yet run",
    )


@pytest.mark.conforms("M-150")
def test_a_started_row_is_there_while_the_pass_runs(lab: Lab) -> None:
    seen: list[tuple[Any, ...]] = []

    def look(context: PassContext) -> Outcome:
        context.report_progress("half way")
        seen.extend(lab.rows("select phase, ended_at, progress, op_id from thermocline.op_log where kind = 'maintain'"))
        return Outcome(operation="compact", status="skipped", sentence="no files eligible for compaction")

    lab.script(compact=look)
    report = lab.run(("compact",))
    assert seen[0][:3] == ("intent", None, "half way")
    assert str(seen[0][3]) == report.pass_id
    assert (report.status, report.sentence) == ("skipped", "compact: no files eligible for compaction")


@pytest.mark.conforms("M-120")
def test_an_operation_that_did_nothing_and_says_no_reason_is_no_success(lab: Lab) -> None:
    lab.script(
        compact=lambda _: Outcome(
            operation="compact", status="done", sentence="compacted", counters={"files_merged": 0}
        ),
        expire_snapshots=lambda _: Outcome(operation="expire_snapshots", status="skipped", sentence=""),
    )
    report = lab.run(("compact", "expire_snapshots"))
    assert report.status == "failed"
    assert [outcome.status for outcome in report.outcomes] == ["failed", "failed"]


@pytest.mark.conforms("M-037", "M-149")
def test_a_disabled_operation_says_so_and_the_others_run_also_when_forced(lab: Lab) -> None:
    lab.policy("snapshot_expiry_enabled=false", "maintenance_enabled=false")
    report = lab.run(("rewrite_manifests", "expire_snapshots"))
    assert report.sentence == "rewrite_manifests: did one thing; expire_snapshots: disabled by policy"
    assert lab.engine.ran == ["rewrite_manifests"]
    scheduled = lab.run(forced=False)
    assert (scheduled.status, scheduled.sentence) == ("disabled", "maintenance is disabled for this table")
    assert lab.engine.ran == ["rewrite_manifests"]


@pytest.mark.conforms("M-105")
def test_the_orphan_sweep_is_opt_in_per_table_and_part_of_all_under_seaweedfs(lab: Lab) -> None:
    assert "remove_orphans: disabled by policy" in lab.run().sentence
    assert "remove_orphans" not in lab.engine.ran
    lab.policy("orphan_sweep_enabled=true")
    assert lab.run().sentence.endswith("remove_orphans: did one thing; prune_metadata: did one thing")
    with closing(lab.connect()) as conn:
        apply_policy(conn, lab.owner, lambda before: change_policy(before, parse_changes([]), reset=True))
        assert "remove_orphans: disabled by policy" in lab.run().sentence
    lab.script()
    lab.policy(preset="seaweedfs")
    lab.run()
    assert [
        name
        for name in lab.engine.ran
        if name in ("compact", "expire_snapshots", "remove_orphans", "rewrite_manifests")
    ] == [
        "compact",
        "expire_snapshots",
        "remove_orphans",
        "rewrite_manifests",
    ]


@pytest.mark.conforms("M-038")
def test_with_every_operation_disabled_the_result_says_so(lab: Lab) -> None:
    keys = ("rewrite", "delete_compaction", "manifest_rewrite", "snapshot_expiry", "orphan_sweep")
    lab.policy(*(f"{key}_enabled=false" for key in keys))
    report = lab.run()
    assert (report.status, report.sentence, lab.engine.ran) == ("disabled", ALL_DISABLED, [])


@pytest.mark.conforms("M-033", "M-035")
def test_a_changed_policy_holds_from_the_next_pass_on_and_is_kept_with_it(lab: Lab) -> None:
    lab.run(("compact",))
    lab.policy("snapshot_retention_hours=6", preset="seaweedfs")
    lab.run(("compact",))
    kept = lab.rows(
        "select policy ->> 'preset', (policy ->> 'snapshot_retention_ms')::bigint from thermocline.op_log"
        " where kind = 'maintain' order by started_at"
    )
    assert kept == [("modak", 86_400_000), ("seaweedfs", 21_600_000)]


def test_a_weekly_manifest_rewrite_waits_for_its_week_unless_it_is_named(lab: Lab) -> None:
    lab.policy("quiet_windows=", preset="artemis")
    lab.run(("rewrite_manifests",))
    report = lab.run()
    assert "rewrite_manifests: manifests were rewritten" in report.sentence
    lab.run(("rewrite_manifests",))
    assert lab.engine.ran.count("rewrite_manifests") == 2


def seconds_to_the_next_pass(lab: Lab) -> float:
    ((seconds,),) = lab.rows(
        "select extract(epoch from next_at - now()) from thermocline.maintenance_schedule where lake_id is not null"
    )
    return float(seconds)


@pytest.mark.conforms("M-009")
def test_under_artemis_passes_follow_each_other_while_there_is_work_and_wait_for_the_end_of_a_pause(lab: Lab) -> None:
    with closing(lab.connect()) as conn:
        schedule_new_tables(conn, 3600)
        conn.execute("update thermocline.maintenance_schedule set next_at = now() + interval '1 hour'")
    lab.run(("compact",), forced=False)
    assert seconds_to_the_next_pass(lab) > 3000, "modak keeps to the worker's interval"
    view = policy_of(
        lab.dsn,
        str(LAKE),
        PolicyRequest(changes=parse_changes(["quiet_windows=", "latency_threshold_ms=0"], "artemis")),
        lab.settings,
    )
    assert (view.preset, seconds_to_the_next_pass(lab) <= 0) == ("artemis", True), "it begins at once"
    lab.run(("compact",), forced=False)
    assert 30 < seconds_to_the_next_pass(lab) <= 60
    lab.script(
        compact=lambda _: Outcome(operation="compact", status="skipped", sentence="no files eligible for compaction")
    )
    lab.run(("compact",), forced=False)
    assert 500 < seconds_to_the_next_pass(lab) <= 600, "with nothing to do it is looked at less often"
    lab.policy("quiet_windows=00:00-24:00 UTC")
    report = lab.run(("compact",), forced=False)
    assert report.status == "paused"
    ends = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    wait = (ends - datetime.now(UTC)).total_seconds()
    assert seconds_to_the_next_pass(lab) >= wait - 60, "and a pause is waited for"


@pytest.mark.conforms("M-142", "M-144")
def test_in_a_quiet_window_no_compaction_starts_and_the_rest_runs(lab: Lab) -> None:
    lab.policy("quiet_windows=00:00-24:00 UTC")
    report = lab.run(("compact", "expire_snapshots"))
    assert report.outcomes[0].status == "paused"
    assert report.outcomes[0].sentence.startswith("paused: quiet window 00:00-24:00 UTC, resumes ")
    assert lab.engine.ran == ["expire_snapshots"]
    kept = lab.rows(
        "select status, message from thermocline.maintenance_status where operation = 'compact' and lake_id is not null"
    )
    assert kept == [("paused", report.outcomes[0].sentence)]
    assert lab.run(("compact",), ignore_pacing=True).status == "done"


def test_two_passes_never_run_on_one_table_and_a_dead_ones_row_is_closed(lab: Lab) -> None:
    with closing(lab.connect()) as conn, pass_lock(conn, lab.owner, "it"), pytest.raises(PassRunning):
        lab.run(("compact",))
    with closing(lab.connect()) as conn:
        conn.execute(
            "insert into thermocline.op_log (op_id, lake_id, kind, phase, worker, started_at)"
            " values (gen_random_uuid(), %s, 'maintain', 'intent', 'w', now() - interval '1 hour')",
            [lab.owner.lake_id],
        )
        with pass_lock(conn, lab.owner, "it"), closing(lab.connect()) as other:
            assert close_dead_passes(other) == 0
        assert close_dead_passes(conn) == 1
    assert lab.rows("select phase, error from thermocline.op_log") == [("abandoned", "the pass died")]


@pytest.mark.conforms("M-151")
def test_the_journal_is_pruned_by_age_but_keeps_the_last_pass(lab: Lab) -> None:
    first, last = (lab.run(("compact",)).pass_id for _ in range(2))
    with closing(lab.connect()) as conn:
        conn.execute("update thermocline.op_log set started_at = started_at - interval '100 days'")
        assert prune_passes(conn, lab.owner, 90) == 1
    assert [str(row[0]) for row in lab.rows("select op_id from thermocline.op_log")] == [last] != [first]


def test_a_dry_run_leaves_no_trace(lab: Lab) -> None:
    report = lab.run(("compact",), dry_run=True)
    assert report.outcomes[0].details == ("None",)
    assert lab.rows("select count(*) from thermocline.op_log") == [(0,)]


def test_an_unknown_engine_and_an_unknown_table_are_refused(lab: Lab) -> None:
    with pytest.raises(EngineUnknown, match="unknown THERMOCLINE_MAINTENANCE_ENGINE 'flink'"):
        engines.engine_named("flink")
    with pytest.raises(LakeTableNotMaintained, match=r"lab\.nothing"):
        lab.run(name=TableName("lab", "nothing"))


@pytest.mark.conforms("O-024")
def test_a_pause_of_everything_stops_passes_on_plain_lake_tables_also_between_two_operations(lab: Lab) -> None:
    pause(lab.dsn, None)
    for forced in (True, False):
        with pytest.raises(Paused, match=r"lab\.readings is paused since"):
            lab.run(forced=forced)
    assert lab.engine.ran == []
    resume(lab.dsn, None)

    def pause_midway(_context: PassContext) -> Outcome:
        pause(lab.dsn, None)
        return Outcome(operation="compact", status="done", sentence="did one thing", counters={"files_merged": 1})

    lab.script(compact=pause_midway)
    report = lab.run()
    assert lab.engine.ran == ["compact"]
    assert "is paused since" in report.sentence
    resume(lab.dsn, None)
    lab.script()
    assert "expire_snapshots" in [outcome.operation for outcome in lab.run().outcomes if outcome.status == "done"]


def test_metadata_files_are_pruned_although_snapshots_do_not_expire(lab: Lab) -> None:
    lab.policy("snapshot_expiry_enabled=false")
    lab.run()
    assert "prune_metadata" in lab.engine.ran
    assert "expire_snapshots" not in lab.engine.ran
