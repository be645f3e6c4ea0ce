"""The conditions under which a stack does its work. Each is declared once, in `CONDITIONS`.

Pure: an observation in, findings out. `/readyz`, `doctor`, `show`, `status` and `/metrics` all read this table: a
condition that is red is red in each of them, with the same sentence and the same remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from thermocline.core.health.finding import Finding, Verdict
from thermocline.core.health.health_observation import (
    HealthLimits,
    HealthObservation,
    ProblemSeen,
    TableSeen,
    WarehouseSeen,
    WorkerSeen,
)

ROOMY_BYTES = 2 * 1024**3
_INIT = (
    "Run `thermocline init`, as the role that shall read the lake, with gateway_addresses as Postgres sees the gateway."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCondition:
    """A condition: how it is judged, and the gauge that is 1 while it holds and 0 while it is red; one per table where
    it is about tables."""

    name: str
    metric: str
    help: str
    judge: Callable[[HealthObservation], Iterable[Finding]]
    of_tables: bool = False


def judge_postgres(seen: HealthObservation) -> Iterator[Finding]:
    yield _reached("postgres", seen.postgres, seen.postgres_version)


def judge_catalog(seen: HealthObservation) -> Iterator[Finding]:
    if seen.postgres is None:
        yield _reached("catalog", seen.catalog, "has the version of this program")


def judge_gateway(seen: HealthObservation) -> Iterator[Finding]:
    yield _reached("gateway", seen.gateway, f"{seen.gateway_address} answers")


def judge_server(seen: HealthObservation) -> Iterator[Finding]:
    """Postgres' own way to the lake: the server is there, a login through it succeeds, and what answers serves this
    database."""
    server = seen.server
    if server is None:
        return
    check, place = f"foreign server {server.name}", f"{server.host} port {server.port}"
    if not server.exists:
        verdict: Verdict = "red" if seen.tables else "warning"
        yield Finding(check=check, verdict=verdict, seen="not there", fix=_INIT)
        return
    if not server.has_login:
        yield Finding(check=check, verdict="red", seen=f"role {server.role} has no login at {place}", fix=_INIT)
    elif server.wanted is not None and server.wanted != (server.host, server.port):
        wanted = " port ".join(server.wanted)
        yield Finding(check=check, verdict="red", seen=f"leads to {place}, and the settings say {wanted}", fix=_INIT)
    elif server.problem is not None:
        fix = f"Start the gateway where Postgres can reach it at {place}. {_INIT} A login that was refused: "
        yield Finding(check=check, verdict="red", seen=f"{place}: {server.problem}", fix=f"{fix}`--rotate-logins`.")
    elif server.is_no_gateway:
        yield Finding(check=check, verdict="red", seen=f"what answers at {place} is no gateway of ours", fix=_INIT)
    elif server.serves_another:
        fix = f"Start a gateway with the DSN of this database (`thermocline gateway --dsn …`). {_INIT}"
        yield Finding(check=check, verdict="red", seen=f"what answers at {place} serves another database", fix=fix)
    elif server.is_tried:
        yield Finding(check=check, verdict="ok", seen=f"{place}, role {server.role} may log in")


def judge_warehouses(seen: HealthObservation) -> Iterator[Finding]:
    for warehouse in seen.warehouses:
        yield _judge_warehouse(warehouse)


def _judge_warehouse(seen: WarehouseSeen) -> Finding:
    check = "warehouse" if seen.profile is None else f"warehouse of profile {seen.profile}"
    if seen.problem is not None:
        fix = seen.problem.fix or "Mount it again or make it readable, or correct warehouse in the settings."
        return Finding(check=check, verdict="red", seen=seen.problem.sentence, fix=fix)
    if not seen.exists and seen.tables:
        whose = "its" if seen.tables == 1 else "their"
        return Finding(
            check=check,
            verdict="red",
            seen=f"{seen.location} does not exist, and {_tables(seen.tables)} {whose} files there",
            fix="Mount it again, or restore it from a backup; where it moved, correct warehouse in the settings.",
        )
    if not seen.exists:
        return Finding(
            check=check, verdict="warning", seen=f"{seen.location} does not exist yet", fix="`thermocline up` makes it."
        )
    if seen.free_bytes is not None and seen.free_bytes < ROOMY_BYTES:
        return Finding(
            check=check,
            verdict="warning",
            seen=seen.seen,
            fix="Free some space: files are written before old ones are removed.",
        )
    return Finding(check=check, verdict="ok", seen=seen.seen)


def judge_lakes(seen: HealthObservation) -> Iterator[Finding]:
    fix = "Bring the file back from a backup; `thermocline verify` tells what else is missing."
    yield from _each("lake", seen.lakes, "the metadata file of {} can be read", fix)


def judge_round_trips(seen: HealthObservation) -> Iterator[Finding]:
    """One row of each table, as Postgres reads it."""
    fix = "The log of the gateway says more; its machine needs the same warehouse and the same rights there."
    good = "Postgres read the lake of {} through foreign server and gateway"
    yield from _each("round trip", seen.round_trips, good, fix)


def judge_worker(seen: HealthObservation) -> Iterator[Finding]:
    """A worker is alive, and cycles end."""
    if seen.postgres is not None or seen.catalog is not None:
        return
    limits = seen.limits
    alive = [worker for worker in seen.workers if _age(seen, worker.seen_at) <= limits.worker_silent_seconds]
    if not alive:
        last = f"; {seen.workers[0].name} was last seen at {_time(seen.workers[0].seen_at)}" if seen.workers else ""
        yield Finding(
            check="worker",
            verdict="red" if seen.tables else "warning",
            seen=f"no worker is alive{last}",
            fix="Start one (`thermocline worker`, or `thermocline up` for everything). Why the last one ended is in "
            "its log.",
        )
        return
    newest = max(alive, key=_last_cycle)
    is_late = _age(seen, _last_cycle(newest)) > limits.cycle_late_seconds
    if is_late and newest.progress_at is not None and _age(seen, newest.progress_at) <= limits.cycle_late_seconds:
        yield Finding(
            check="worker",
            verdict="warning",
            seen=f"{newest.name} has finished no cycle since {_time(_last_cycle(newest))}, and goes on: its operation "
            f"came on at {_time(newest.progress_at)}",
            fix="Wait for it. Where cycles may take that long, raise cycle_late_seconds.",
        )
    elif is_late:
        runs = f", its cycle runs since {_time(newest.cycle_started_at)}" if newest.cycle_started_at else ""
        yield Finding(
            check="worker",
            verdict="red",
            seen=f"{newest.name} has finished no cycle since {_time(_last_cycle(newest))}{runs}",
            fix="Its log says what it waits for, `thermocline show TABLE` what each table's last cycle said. Where "
            "cycles may take that long, raise cycle_late_seconds.",
        )
    elif newest.cycle_finished_at is None:
        yield Finding(
            check="worker",
            verdict="warning",
            seen=f"{newest.name} has not finished its first cycle since {_time(newest.started_at)}",
            fix="Wait for it; its log says what it does.",
        )
    else:
        yield Finding(
            check="worker", verdict="ok", seen=f"{newest.name} finished a cycle at {_time(newest.cycle_finished_at)}"
        )
    for worker in alive:
        runs_since = worker.cycle_started_at
        if worker is not newest and runs_since is not None and _age(seen, runs_since) > limits.cycle_late_seconds:
            yield Finding(
                check=f"worker {worker.name}",
                verdict="warning",
                seen=f"its cycle runs since {_time(runs_since)}",
                fix="Its log says what it waits for; the tables that it holds are worked on by no other worker.",
            )


def judge_cycles(seen: HealthObservation) -> Iterator[Finding]:
    """The last cycle of each table did what it should."""
    failing = [table for table in seen.tables if table.failing_since is not None and table.paused_since is None]
    for table in failing:
        assert table.failing_since is not None
        is_lasting = _age(seen, table.failing_since) > seen.limits.failing_seconds
        yield Finding(
            check=f"cycles of {table.table}",
            table=table.table,
            verdict="red" if is_lasting else "warning",
            seen=f"fail since {_time(table.failing_since)}: {table.cycle_said}",
            fix=f"`thermocline show {table.table}` tells more; nothing of it moves until the reason is gone.",
        )
    late = [table for table in seen.tables if table not in failing and _is_late(seen, table)]
    for table in late:
        since = table.cycle_at or table.registered_at
        yield Finding(
            check=f"cycles of {table.table}",
            table=table.table,
            verdict="red",
            seen=f"none has ended since {_time(since)}, more than {seen.limits.cycle_late_seconds:g} s",
            fix="Another process may hold the table, or the worker may be busy with another one: `thermocline show "
            f"{table.table}` and the worker's log tell. Where cycles may take that long, raise cycle_late_seconds.",
        )
    if seen.tables and not failing and not late:
        yield Finding(check="cycles", verdict="ok", seen=f"the last cycle of {_of(len(seen.tables))} succeeded")


def judge_corrections(seen: HealthObservation) -> Iterator[Finding]:
    """No correction waits longer than the limit."""
    limit = seen.limits.corrections_late_seconds
    late = [t for t in seen.tables if t.waiting_since is not None and _age(seen, t.waiting_since) > limit]
    for table in late:
        assert table.waiting_since is not None
        paused = f", for it is paused since {_time(table.paused_since)}" if table.paused_since else ""
        yield Finding(
            check=f"corrections of {table.table}",
            table=table.table,
            verdict="warning" if table.paused_since else "red",
            seen=f"{table.waiting_rows:,} wait, some since {_time(table.waiting_since)}, more than {limit:g} s{paused}",
            fix=f"`thermocline resume {table.table}`"
            if table.paused_since
            else f"`thermocline fold {table.table}` folds them and says what stands in the way.",
        )
    if seen.tables and not late:
        yield Finding(check="corrections", verdict="ok", seen=f"none wait longer than {limit:g} s")


CONDITIONS: tuple[HealthCondition, ...] = (
    HealthCondition(
        name="postgres",
        metric="thermocline_postgres_reachable",
        help="1 while Postgres can be reached.",
        judge=judge_postgres,
    ),
    HealthCondition(
        name="catalog",
        metric="thermocline_catalog_current",
        help="1 while the catalog has the version of this program.",
        judge=judge_catalog,
    ),
    HealthCondition(
        name="gateway",
        metric="thermocline_gateway_reachable",
        help="1 while the gateway of gateway_listen answers.",
        judge=judge_gateway,
    ),
    HealthCondition(
        name="foreign server",
        metric="thermocline_foreign_server_reachable",
        help="1 while Postgres can log in at the gateway through its foreign server.",
        judge=judge_server,
    ),
    HealthCondition(
        name="warehouse",
        metric="thermocline_warehouse_reachable",
        help="1 while every warehouse can be read.",
        judge=judge_warehouses,
    ),
    HealthCondition(
        name="lake",
        metric="thermocline_lake_reachable",
        help="1 while the metadata file of the table's lake can be read.",
        judge=judge_lakes,
        of_tables=True,
    ),
    HealthCondition(
        name="round trip",
        metric="thermocline_lake_readable_by_postgres",
        help="1 while Postgres reads a lake file of the table through foreign server and gateway.",
        judge=judge_round_trips,
        of_tables=True,
    ),
    HealthCondition(
        name="worker",
        metric="thermocline_worker_cycles_on_time",
        help="1 while a worker is alive and finishes its cycles.",
        judge=judge_worker,
    ),
    HealthCondition(
        name="cycles",
        metric="thermocline_cycle_succeeding",
        help="0 while the cycles of the table fail for more than a minute.",
        judge=judge_cycles,
        of_tables=True,
    ),
    HealthCondition(
        name="corrections",
        metric="thermocline_corrections_on_time",
        help="0 while corrections of the table wait longer than corrections_late_seconds.",
        judge=judge_corrections,
        of_tables=True,
    ),
)


def judge_health(seen: HealthObservation) -> tuple[Finding, ...]:
    """The findings of every condition."""
    return tuple(finding for condition in CONDITIONS for finding in condition.judge(seen))


def judge_age(age_seconds: float | None, limits: HealthLimits) -> Finding | None:
    """A finding when the newest observation is too old to say anything of now, or when there is none yet."""
    if age_seconds is not None and age_seconds <= limits.stale_seconds:
        return None
    seen = "nothing was observed yet" if age_seconds is None else f"the newest one is {age_seconds:.0f} s old"
    fix = "Something that is looked at does not answer; `thermocline doctor` names it."
    return Finding(check="observation", verdict="red", seen=seen, fix=fix)


def concerning(findings: Iterable[Finding], table: str) -> tuple[Finding, ...]:
    """What is not good and is about this table, or about all."""
    return tuple(f for f in findings if f.verdict != "ok" and f.table in (None, table))


def _reached(check: str, problem: ProblemSeen | None, good: str) -> Finding:
    if problem is None:
        return Finding(check=check, verdict="ok", seen=good)
    return Finding(check=check, verdict="red", seen=problem.sentence, fix=problem.fix)


def _each(what: str, tried: Mapping[str, ProblemSeen | None], good: str, fix: str) -> Iterator[Finding]:
    failed = {table: problem for table, problem in tried.items() if problem is not None}
    for table, problem in failed.items():
        yield Finding(
            check=f"{what} of {table}", table=table, verdict="red", seen=problem.sentence, fix=problem.fix or fix
        )
    if tried and not failed:
        yield Finding(check=what, verdict="ok", seen=good.format(_of(len(tried))))


def _tables(count: int) -> str:
    return "1 table has" if count == 1 else f"{count} tables have"


def _of(count: int) -> str:
    return "1 table" if count == 1 else f"each of {count} tables"


def _is_late(seen: HealthObservation, table: TableSeen) -> bool:
    """Whether the table had no cycle for too long, while a worker is there that finishes cycles: one that does not is
    told by itself."""
    since = table.cycle_at or table.registered_at
    if since is None or table.paused_since is not None or _age(seen, since) <= seen.limits.cycle_late_seconds:
        return False
    return any(
        _age(seen, worker.seen_at) <= seen.limits.worker_silent_seconds
        and _age(seen, _last_cycle(worker)) <= seen.limits.cycle_late_seconds
        for worker in seen.workers
    )


def _last_cycle(worker: WorkerSeen) -> datetime:
    return worker.cycle_finished_at or worker.started_at


def _age(seen: HealthObservation, moment: datetime) -> float:
    return (seen.at - moment).total_seconds()


def _time(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
