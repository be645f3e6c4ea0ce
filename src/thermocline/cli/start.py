"""start, stop: whether the partitions of a table move by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from thermocline.cli.confirm import check_name_typed
from thermocline.cli.options import (
    DirOption,
    DsnOption,
    JsonOption,
    TableArgument,
    option,
    read_settings,
    read_table_name,
)
from thermocline.cli.output import print_json, print_lines
from thermocline.cli.preview import print_preview
from thermocline.core.names import TableName
from thermocline.stack.locate import require_dsn

if TYPE_CHECKING:
    from thermocline.ops.admin.start_stop import StartReport


def add_commands(app: typer.Typer) -> None:
    app.command("start")(start)
    app.command("stop")(stop)


def start(
    table: TableArgument,
    directory: DirOption = None,
    dsn: DsnOption = None,
    yes: Annotated[
        str | None,
        option("--yes", "The table's name, for scripts whose retention deletes rows.", default="it is asked for"),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Let the partitions of a table move to the lake by themselves, from the worker's next cycle on."""
    loaded = read_settings(dir=directory, dsn=dsn)
    report = start_confirmed(require_dsn(loaded), read_table_name(loaded, table), yes)
    if json:
        print_json(report)
        return
    print_preview(report.preview)
    if report.expiry is not None:
        print_lines([str(report.expiry)])
    lines = [f"{report.table} is started{'' if report.changed else ' already'}; by itself the worker does:"]
    lines += [f"  {line}" for line in report.by_itself]
    if report.paused_since is not None:
        lines.append(f"it is paused, so nothing happens before `thermocline resume {report.table}`")
    print_lines([*lines, f"`thermocline stop {report.table}` ends it"])


def start_confirmed(dsn: str, name: TableName, yes: str | None) -> StartReport:
    """Start a table, after its name was typed when its lake retention deletes rows."""
    from thermocline.ops.admin.start_stop import start as apply_start

    told = apply_start(dsn, name, dry_run=True)
    if told.changed and told.expiry is not None:
        check_name_typed(name, yes, flag="--yes", warning=f"{told.expiry}, for good.", refusal=f"{name} is not started")
    return apply_start(dsn, name, told=told)


def stop(table: TableArgument, directory: DirOption = None, dsn: DsnOption = None, json: JsonOption = False) -> None:
    """End what `start` began: partitions move only by `thermocline tier`. `pause` stops everything else, too."""
    from thermocline.ops.admin.start_stop import stop as apply_stop

    loaded = read_settings(dir=directory, dsn=dsn)
    report = apply_stop(require_dsn(loaded), read_table_name(loaded, table))
    if json:
        print_json(report)
        return
    lines = [
        f"{report.table} is stopped" if report.changed else f"{report.table} is not started",
        f"until `thermocline start {report.table}`, this happens only by `thermocline tier {report.table}`:",
        *(f"  {line}" for line in report.stops),
        "this goes on; `thermocline pause` stops it, too:",
        *(f"  {line}" for line in report.goes_on),
    ]
    print_lines([*lines, *([f"{report.table} is being worked on; that step is finished first"] if report.busy else [])])
