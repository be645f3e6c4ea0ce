"""The demo: a table over two years, moved to the lake, with what one sees before and after. Run again, it continues
with what is there.

It runs in the Postgres that the stack made, in a schema of its own, and never touches a table that it did not make.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from psycopg import sql
from psycopg.rows import class_row, scalar_row

from thermocline.core.names import TableName
from thermocline.errors import DemoRefused
from thermocline.ops.inspect.overview import TableDetail, read_detail
from thermocline.ops.register.registration import RegisterRequest, register
from thermocline.ops.requests.submit import submit_request
from thermocline.runtime import pg
from thermocline.runtime.progress import ProgressReporter
from thermocline.runtime.settings import Settings
from thermocline.runtime.settings_layers import LoadedSettings
from thermocline.stack.locate import require_dsn
from thermocline.stack.state import StackState, read_state

TABLE = TableName("demo", "events")
SCHEMA_COMMENT = "The demo of Thermocline, made by `thermocline up --demo`."
"""Marks the schema as ours: a schema of that name with another comment is left alone."""
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
class Totals:
    """Aggregates of the whole table."""

    rows: int
    amount: Decimal
    customers: int
    oldest: datetime
    newest: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedTotals:
    """The totals over both tiers, and how long the query took."""

    totals: Totals
    seconds: float


def run_demo(
    loaded: LoadedSettings,
    *,
    print_line: ProgressReporter,
    report_progress: ProgressReporter,
    now: datetime | None = None,
) -> None:
    """Create the table, register it, tier it, and print the results."""
    dsn, settings = require_dsn(loaded), loaded.values
    check_demo_allowed(loaded, read_state(settings.dir))
    with pg.connect(dsn, autocommit=True, application_name="thermocline demo") as conn:
        fresh = _make_table(conn, now or datetime.now(UTC), report_progress)
        register(
            dsn,
            RegisterRequest(table=TABLE, tiering_lag=TIERING_LAG, start=True),
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


def check_demo_allowed(loaded: LoadedSettings, recorded: StackState | None) -> None:
    """Refuse a Postgres that the stack did not make."""
    if recorded is not None and not recorded.embedded:
        raise DemoRefused(f"The stack in {loaded.values.dir} uses {pg.without_password(recorded.postgres_dsn)}.")
    if recorded is None and loaded.values.dsn is not None:
        raise DemoRefused(f"The DSN {pg.without_password(loaded.values.dsn)} was given.")


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
    found = conn.execute(_QUERIES["schema_comment"]).fetchone()
    if found is not None:
        if found[0] != SCHEMA_COMMENT:
            raise DemoRefused(
                f"Database {conn.info.dbname} has a schema {TABLE.schema} that the demo did not make.",
                hint=f"{DemoRefused.hint} Or rename that schema.",
            )
        report_progress(f"{TABLE} is there already; going on with it")
        return False
    months = plan_months(now)
    report_progress(f"making {TABLE} with {sum(month.rows for month in months):,} rows in {len(months)} partitions")
    with conn.transaction():
        conn.execute(_QUERIES["create_schema"])
        conn.execute(sql.SQL("comment on schema demo is {}").format(sql.Literal(SCHEMA_COMMENT)))
        conn.execute(_QUERIES["create_table"])
        for month in months:
            create = sql.SQL("create table demo.{} partition of demo.events for values from ({}) to ({})")
            conn.execute(create.format(sql.Identifier(month.name), sql.Literal(month.lo), sql.Literal(month.hi)))
            if month.rows:
                conn.execute(
                    _QUERIES["fill"],
                    {"first_id": month.first_id, "lo": month.lo, "hi": min(month.hi, now), "rows": month.rows},
                )
    conn.execute("analyze demo.events")
    return True


def _aggregate(conn: pg.Connection) -> TimedTotals:
    began = time.monotonic()
    totals = conn.cursor(row_factory=class_row(Totals)).execute(_QUERIES["aggregate"]).fetchone()
    assert totals is not None
    return TimedTotals(totals=totals, seconds=time.monotonic() - began)


def _scalar(conn: pg.Connection, query: str, *parameters: object) -> int:
    value = conn.cursor(row_factory=scalar_row).execute(_QUERIES[query], parameters or None).fetchone()
    assert value is not None
    return int(value)


def _render_start(heap_rows: int, fresh: bool) -> str:
    made = "was made" if fresh else "was there"
    return f"{TABLE} {made}, partitioned by month; the heap held {heap_rows:,} rows."


def _render_tiering(detail: TableDetail, moved_bytes: int, seconds: float) -> list[str]:
    seen = detail.overview
    size = f", {moved_bytes / 1e6:.1f} MB of Parquet" if moved_bytes else ""
    return [
        f"{seen.tiered_partitions + seen.dropped_partitions} partitions with {seen.rows_tiered:,} rows are in "
        f"the lake{size};"
        f" {seen.dropped_partitions} of them left the heap. Moving took {seconds:.1f} s, the start of Spark included."
    ]


def _render_tiers(conn: pg.Connection, line: str, before: TimedTotals) -> list[str]:
    first, after = _aggregate(conn), _aggregate(conn)
    totals = after.totals
    warm, cold = _scalar(conn, "heap_rows", line), _scalar(conn, "cold_rows", line)
    same = (
        "the same answer" if first.totals == after.totals == before.totals else f"NOT the same answer: {before.totals}"
    )
    return [
        f"The line T stands at {line}: {warm:,} rows in the heap, {cold:,} in the lake.",
        (
            f"One query over both tiers: {totals.rows:,} rows, amount {totals.amount:,}, {totals.customers:,} "
            f"customers, {totals.oldest:%Y-%m-%d} to {totals.newest:%Y-%m-%d}."
        ),
        f"  before moving {_ms(before)}; after it {_ms(first)} the first time, {_ms(after)} the second: {same}.",
    ]


def _ms(aggregate: TimedTotals) -> str:
    return f"{aggregate.seconds * 1000:.0f} ms"


def _update_old_row(conn: pg.Connection) -> list[str]:
    row = pg.rows_by_name(conn).execute(_QUERIES["oldest"], [datetime.now(UTC)]).fetchone()
    assert row is not None
    began = time.monotonic()
    changed = conn.execute(_QUERIES["raise_amount"], [row.id, row.ts]).rowcount
    update_ms = (time.monotonic() - began) * 1000
    began = time.monotonic()
    updated = pg.rows_by_name(conn).execute(_QUERIES["read_back"], [row.id, row.ts]).fetchone()
    read_ms = (time.monotonic() - began) * 1000
    assert updated is not None
    return [
        (
            f"Row {row.id} of {row.ts:%Y-%m-%d} lies in the lake. Its amount was {row.amount}; raised by 1 (UPDATE "
            f"{changed}, {update_ms:.0f} ms),"
        ),
        f"  it reads back as {updated.amount} ({read_ms:.0f} ms).",
    ]


def _render_farewell(dsn: str, settings: Settings) -> list[str]:
    return [
        "",
        "Look for yourself:",
        f'  psql "{pg.without_password(dsn)}"',
        "  set search_path = demo_all, demo;",
        "  select date_trunc('month', ts) as month, count(*), sum(amount) from events group by 1 order by 1;",
        f"Stop it with Ctrl-C, or by: thermocline down --dir {settings.dir}",
        "",
    ]
