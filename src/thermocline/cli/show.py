"""show: one table, its tiers and how its lake is: sizes of files, clustering, warnings, passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from thermocline.cli.options import DirOption, DsnOption, JsonOption, TableArgument, read_settings, read_table_name
from thermocline.cli.output import print_json, print_lines, print_table, render_problems
from thermocline.core.maintenance.health import SIZE_EDGES_BYTES
from thermocline.errors import NotRegistered, ThermoclineError
from thermocline.stack.locate import require_dsn

if TYPE_CHECKING:
    from thermocline.catalog.pauses import CycleState
    from thermocline.maintain.lake_health import HealthReport
    from thermocline.ops.inspect.overview import TableDetail

_BAR = 40
_DEEPEST = 16


def add_commands(app: typer.Typer) -> None:
    app.command("show")(show)


def show(table: TableArgument, directory: DirOption = None, dsn: DsnOption = None, json: JsonOption = False) -> None:
    """Show one table: cut-line, partitions, health of its lake, last operations."""
    from thermocline.core.health.health_conditions import concerning, judge_health
    from thermocline.maintain.lake_health import read_health
    from thermocline.ops.health.observer import HealthObserver
    from thermocline.ops.inspect.overview import read_detail

    loaded = read_settings(dir=directory, dsn=dsn)
    where, name = require_dsn(loaded), read_table_name(loaded, table)
    detail, health, problem = None, None, None
    try:
        detail = read_detail(where, name, connect_timeout_seconds=loaded.values.connect_timeout_seconds)
    except NotRegistered as refusal:
        problem = refusal
    try:
        health = read_health(where, name, loaded.values)
    except ThermoclineError as refusal:
        if detail is None:
            raise problem or refusal from None
    problems = concerning(judge_health(HealthObserver(loaded.values).observe(only=str(name))), str(name))
    if json:
        table_detail = (
            {field: getattr(detail, field) for field in detail.__dataclass_fields__}
            if detail is not None
            else {"table": str(name)}
        )
        print_json({**table_detail, "lake_health": health, "problems": problems})
        return
    if detail is not None:
        print_detail(detail)
    print_lines(render_problems(problems))
    if health is not None:
        print_health(health)
    if detail is not None:
        print_lines(["", *(f"{event.at:%Y-%m-%d %H:%M:%S}  {event.sentence}" for event in detail.events)])


def print_detail(detail: TableDetail) -> None:
    """The tiers: line, snapshot, partitions."""
    seen = detail.overview
    print_lines(
        [
            f"table        {seen.table} ({seen.mode}), primary key ({', '.join(detail.primary_key)})",
            f"seam         {seen.seam}",
            f"lake         {detail.lake}, partitioned by {detail.lake_partition}, in {detail.lake_location}",
            f"T            {seen.cut_line} on {seen.tier_key} ({detail.key_type})",
            f"S            {seen.snapshot if seen.snapshot is not None else 'nothing is published yet'}",
            f"corrections  {seen.pending_corrections} pending",
            "settings     " + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in detail.settings.items()),
            f"moving       {render_moving(detail)}",
            *([f"paused       since {seen.paused_since:%Y-%m-%d %H:%M:%S}"] if seen.paused_since else []),
            *(render_cycle(detail.cycle) if detail.cycle else []),
            "",
        ]
    )
    print_table(
        ["partition", "from", "to", "state", "rows moved"],
        (
            [p.name, p.lower, p.upper, p.state, None if p.rows_in_lake is None else f"{p.rows_in_lake:,}"]
            for p in detail.partitions
        ),
    )


def render_moving(detail: TableDetail) -> str:
    """Whether partitions move by themselves."""
    seen = detail.overview
    if seen.started_at is not None:
        return f"by itself since {seen.started_at:%Y-%m-%d %H:%M:%S}; `thermocline stop {seen.table}` ends it"
    return f"by hand only (`thermocline tier {seen.table}`) until `thermocline start {seen.table}`"


def render_cycle(cycle: CycleState) -> list[str]:
    """The sentence of the last cycle, what it deferred, and the next step."""
    failed = f"failed ({cycle.problem_code}): " if cycle.problem_code else ""
    lines = [f"last cycle   {cycle.at:%Y-%m-%d %H:%M:%S}  {failed}{cycle.sentence}"]
    lines += [f"deferred     {reason}" for reason in cycle.deferred]
    return [*lines, *([f"next         {cycle.next_step}"] if cycle.next_step else [])]


def print_health(health: HealthReport) -> None:
    """The lake: figures, sizes of files, clustering, warnings, the last status of each operation."""
    stats = health.stats
    lines = ["", f"lake of {health.table}"]
    if health.problem:
        lines.append(f"problem      {health.problem}")
    if stats:
        lines += render_stats(health) if "oldest_snapshot" in stats else render_figures(health)
    print_lines([*lines, *(f"warning      {warning}" for warning in health.warnings), ""])
    if stats.get("files"):
        print_table(["file size", "files", ""], render_histogram(stats["size_histogram"]))
        print_lines(["", *render_depth(stats), ""])
    print_table(
        ["operation", "status", "at", "message"],
        ([s.operation, s.status, s.at and f"{s.at:%Y-%m-%d %H:%M:%S}", s.message] for s in health.operations),
    )


def render_stats(health: HealthReport) -> list[str]:
    stats = health.stats
    oldest = str(stats["oldest_snapshot"] or "—").replace("T", " ")[:19]
    deletes = f"{stats['delete_files']} delete files (ratio {stats['delete_ratio']:.0%})"
    return [
        (
            f"files        {stats['files']:,} data files, {stats['bytes'] / 1_048_576:,.1f} MB, "
            f"{stats['records']:,} rows; {deletes}"
        ),
        (
            f"small files  {stats['small_files']:,}; per hour {health.created_per_hour:g} created, "
            f"{health.removed_per_hour:g} removed"
        ),
        f"metadata     {stats['snapshots']:,} snapshots, {stats['manifests']:,} manifests, oldest snapshot {oldest}",
        (
            f"debt         score {stats['debt_score']:g}; compaction is {stats['compaction_lag_seconds'] or 0:,} "
            "s behind the newest commit"
        ),
        f"next pass    {health.next_pass:%Y-%m-%d %H:%M:%S}" if health.next_pass else "next pass    not planned yet",
        *([f"state        {health.state}"] if health.state else []),
    ]


def render_figures(health: HealthReport) -> list[str]:
    """The figures of a format that this command knows nothing of, as the format names them, and what the last pass
    counted."""
    lines = [f"{name.replace('_', ' '):<12} {value}" for name, value in health.stats.items()]
    counted = next((line.counters for line in health.passes if line.counters), {})
    return [*lines, *(f"last pass    {name} {value}" for name, value in counted.items())]


def render_histogram(counts: list[int]) -> list[list[object]]:
    """A bar per class of size, to scale."""
    most = max(*counts, 1)
    edges = [f"< {edge // 1_048_576} MB" for edge in SIZE_EDGES_BYTES] + [f">= {SIZE_EDGES_BYTES[-1] // 1_048_576} MB"]
    return [[edge, count, "█" * (-(-count * _BAR // most))] for edge, count in zip(edges, counts, strict=True)]


def render_depth(stats: Mapping[str, Any]) -> list[str]:
    """How many files a look-up of one key opens, drawn: one line per file of that depth."""
    depth, column = stats.get("clustering_depth"), stats.get("clustering_column")
    if depth is None:
        return ["clustering   no column to judge it by"]
    drawn = "▰" * min(round(depth), _DEEPEST) + ("…" if depth > _DEEPEST else "")
    return [f"clustering   depth {depth:g} on {column}  {drawn}  (1 is perfect: a key lies in one file)"]
