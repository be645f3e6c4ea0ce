"""The demo: a table over two years, moved to the lake, with what one sees before and after. Run again, it continues
with what is there."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime

from psycopg import sql

from thermocline.core.names import TableName
from thermocline.ops.inspect.overview import TableDetail, read_detail
from thermocline.ops.register.registration import RegisterRequest, register
from thermocline.ops.requests.submit import submit_request
from thermocline.runtime import pg
from thermocline.runtime.progress import ProgressReporter
from thermocline.runtime.settings import Settings
from thermocline.runtime.settings_layers import LoadedSettings
from thermocline.stack.locate import require_dsn

TABLE = TableName("public", "events")
RECENT_MONTHS = 8
ROWS_PER_MONTH = 38_000
OLD_ROWS = 20_000
OLD_MONTHS = 24
TIERING_LAG = "90d"
TIER_TIMEOUT_SECONDS = 300

_QUERIES = pg.load_queries("thermocline.stack", "queries/demo.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    """One partition of the demo table."""

    lo: datetime
    hi: datetime
    first_id: int
    rows: int

    @property
    def name(self) -> str:
        return f"events_{self.lo:%Y_%m}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoAnswer:
    """What a report would ask, and how long the answer took."""

    answer: tuple[object, ...]
    seconds: float


def run_demo(
    loaded: LoadedSettings,
    *,
    print_line: ProgressReporter,
    report_progress: ProgressReporter,
    now: datetime | None = None,
) -> None:
    """Make, register, tier, and tell."""
    dsn, settings = require_dsn(loaded), loaded.values
    with pg.connect(dsn, autocommit=True, application_name="thermocline demo") as conn:
        fresh = _make_table(conn, now or datetime.now(UTC), report_progress)
        register(
            dsn,
            RegisterRequest(table=TABLE, tiering_lag=TIERING_LAG, reclaim_lag="0"),
            settings=settings,
            report_progress=lambda line: report_progress(f"  {line}"),
        )
        before = _aggregate(conn)
        heap_before = _scalar(conn, "heap_rows", read_detail(dsn, TABLE).overview.cut_line)
        report_progress("moving old partitions to the lake (Spark starts first)")
        began = time.monotonic()
        report = submit_request(
            "tier",
            dsn,
            TABLE,
            settings=settings,
            report_progress=lambda line: report_progress(f"  {line}"),
            timeout_seconds=TIER_TIMEOUT_SECONDS,
        )
        tier_seconds = time.monotonic() - began
        detail = read_detail(dsn, TABLE)
        for line in (
            "",
            _render_start(heap_before, fresh),
            *_render_tiering(detail, int(report.get("bytes", 0)), tier_seconds),
            *_render_tiers(conn, detail.overview.cut_line, before),
            *_update_old_row(conn),
            *_render_farewell(dsn, settings),
        ):
            print_line(line)


def plan_months(now: datetime) -> tuple[Month, ...]:
    """The partitions: one month two years back, the last eight months, and the next one, empty."""
    this = now.year * 12 + now.month - 1
    months = [
        (this - OLD_MONTHS, OLD_ROWS),
        *((this - back, ROWS_PER_MONTH) for back in range(RECENT_MONTHS - 1, -1, -1)),
        (this + 1, 0),
    ]
    return tuple(
        Month(lo=_month_start(index), hi=_month_start(index + 1), first_id=position * 1_000_000, rows=rows)
        for position, (index, rows) in enumerate(months)
    )


def _month_start(index: int) -> datetime:
    return datetime(index // 12, index % 12 + 1, 1, tzinfo=UTC)


def _make_table(conn: pg.Connection, now: datetime, report_progress: ProgressReporter) -> bool:
    if _scalar(conn, "exists"):
        report_progress("public.events is there already; going on with it")
        return False
    months = plan_months(now)
    report_progress(
        f"making public.events with {sum(month.rows for month in months):,} rows in {len(months)} partitions"
    )
    with conn.transaction():
        conn.execute(_QUERIES["create_table"])
        for month in months:
            create = sql.SQL("create table public.{} partition of public.events for values from ({}) to ({})")
            conn.execute(create.format(sql.Identifier(month.name), sql.Literal(month.lo), sql.Literal(month.hi)))
            if month.rows:
                conn.execute(
                    _QUERIES["fill"],
                    {"first_id": month.first_id, "lo": month.lo, "hi": min(month.hi, now), "rows": month.rows},
                )
    conn.execute("analyze public.events")
    return True


def _aggregate(conn: pg.Connection) -> DemoAnswer:
    began = time.monotonic()
    row = conn.execute(_QUERIES["aggregate"]).fetchone()
    assert row is not None
    return DemoAnswer(answer=row, seconds=time.monotonic() - began)


def _scalar(conn: pg.Connection, query: str, *parameters: object) -> int:
    row = conn.execute(_QUERIES[query], parameters or None).fetchone()
    assert row is not None
    return int(row[0])


def _render_start(heap_rows: int, fresh: bool) -> str:
    made = "was made" if fresh else "was there"
    return f"public.events {made}, partitioned by month; the heap held {heap_rows:,} rows."


def _render_tiering(detail: TableDetail, moved_bytes: int, seconds: float) -> list[str]:
    seen = detail.overview
    size = f", {moved_bytes / 1e6:.1f} MB of Parquet" if moved_bytes else ""
    return [
        f"{seen.tiered_partitions + seen.dropped_partitions} partitions with {seen.rows_tiered:,} rows are in "
        f"the lake{size};"
        f" {seen.dropped_partitions} of them left the heap. Moving took {seconds:.1f} s, the start of Spark included."
    ]


def _render_tiers(conn: pg.Connection, line: str, before: DemoAnswer) -> list[str]:
    first, after = _aggregate(conn), _aggregate(conn)
    rows, amount, customers, oldest, newest = after.answer
    warm, cold = _scalar(conn, "heap_rows", line), _scalar(conn, "cold_rows", line)
    same = (
        "the same answer" if first.answer == after.answer == before.answer else f"NOT the same answer: {before.answer}"
    )
    return [
        f"The line T stands at {line}: {warm:,} rows in the heap, {cold:,} in the lake.",
        (
            f"One query over both tiers: {rows:,} rows, amount {amount:,}, {customers:,} customers, "
            f"{oldest:%Y-%m-%d} to {newest:%Y-%m-%d}."
        ),
        f"  before moving {_ms(before)}; after it {_ms(first)} the first time, {_ms(after)} the second: {same}.",
    ]


def _ms(aggregate: DemoAnswer) -> str:
    return f"{aggregate.seconds * 1000:.0f} ms"


def _update_old_row(conn: pg.Connection) -> list[str]:
    found = conn.execute(_QUERIES["oldest"], [datetime.now(UTC)]).fetchone()
    assert found is not None
    identity, at, amount = found
    began = time.monotonic()
    changed = conn.execute(_QUERIES["raise_amount"], [identity, at]).rowcount
    update_ms = (time.monotonic() - began) * 1000
    began = time.monotonic()
    back = conn.execute(_QUERIES["read_back"], [identity, at]).fetchone()
    read_ms = (time.monotonic() - began) * 1000
    assert back is not None
    return [
        (
            f"Row {identity} of {at:%Y-%m-%d} lies in the lake. Its amount was {amount}; raised by 1 (UPDATE "
            f"{changed}, {update_ms:.0f} ms),"
        ),
        f"  it reads back as {back[0]} ({read_ms:.0f} ms).",
    ]


def _render_farewell(dsn: str, settings: Settings) -> list[str]:
    return [
        "",
        "Look for yourself:",
        f'  psql "{pg.without_password(dsn)}"',
        "  set search_path = public_all, public;",
        "  select date_trunc('month', ts) as month, count(*), sum(amount) from events group by 1 order by 1;",
        f"Stop it with Ctrl-C, or by: thermocline down --dir {settings.dir}",
        "",
    ]
