"""alter: the settings of a registered table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from thermocline.cli.confirm import check_name_typed
from thermocline.cli.options import (
    DirOption,
    DryRunOption,
    DsnOption,
    JsonOption,
    TableArgument,
    option,
    read_settings,
    read_table_name,
)
from thermocline.cli.output import print_json, print_lines
from thermocline.cli.preview import print_preview
from thermocline.core.modes.table_settings import RequestedSettings
from thermocline.errors import UsageError
from thermocline.stack.locate import require_dsn

if TYPE_CHECKING:
    from thermocline.ops.admin.alter_table import AlterReport

_UNCHANGED = "unchanged"


def add_commands(app: typer.Typer) -> None:
    app.command("alter")(alter)


def alter(
    table: TableArgument,
    directory: DirOption = None,
    dsn: DsnOption = None,
    tiering_lag: Annotated[
        str | None,
        option("--tiering-lag", "How far behind the newest row a partition must be to move.", default=_UNCHANGED),
    ] = None,
    reclaim_lag: Annotated[
        str | None,
        option("--reclaim-lag", "How long a tiered partition stays in the heap, from its move on.", default=_UNCHANGED),
    ] = None,
    lake_retention: Annotated[
        str | None,
        option("--lake-retention", "How far below T the lake keeps rows; none keeps them.", default=_UNCHANGED),
    ] = None,
    premake: Annotated[
        int | None, option("--premake", "Partitions kept ready above the newest row; 0 makes none.", default=_UNCHANGED)
    ] = None,
    yes: Annotated[
        str | None,
        option("--yes", "The table's name, for scripts whose retention deletes rows.", default="it is asked for"),
    ] = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Change lags, lake retention or premake of a registered table, from its next cycle on."""
    from thermocline.ops.admin.alter_table import alter as apply_alter

    requested = RequestedSettings(
        tiering_lag=tiering_lag, reclaim_lag=reclaim_lag, lake_retention=lake_retention, premake=premake
    )
    if requested == RequestedSettings():
        raise UsageError(
            "No setting was given.", hint="Give --tiering-lag, --reclaim-lag, --lake-retention or --premake."
        )
    loaded = read_settings(dir=directory, dsn=dsn)
    where, name = require_dsn(loaded), read_table_name(loaded, table)
    report = apply_alter(where, name, requested, settings=loaded.values, dry_run=True)
    if not dry_run:
        if report.expiry is not None:
            check_name_typed(
                name,
                yes,
                flag="--yes",
                warning=f"{report.expiry}, for good.",
                refusal=f"The lake retention of {name} is not changed",
            )
        report = apply_alter(where, name, requested, settings=loaded.values, told=report)
    if json:
        print_json(report)
        return
    print_lines(render_altered(report))
    print_preview(report.preview)
    if not report.is_started:
        print_lines([f"nothing moves by itself until `thermocline start {report.table}`"])


def render_altered(report: AlterReport) -> list[str]:
    """The settings before and after, and what they do not undo."""
    if not report.changes:
        return [f"{report.table} has these settings already"]
    verb = "would be altered" if report.dry_run else "is altered"
    lines = [f"{report.table} {verb}; from its next cycle on:"]
    lines += [f"  {c.setting.replace('_', ' '):<15} {c.before} → {c.after}" for c in report.changes]
    if report.expiry is not None:
        lines.append(str(report.expiry))
    return [*lines, *(f"note: {note}" for note in report.notes)]
