"""maintain, policy: maintenance of the lake, and its policies."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from thermocline.cli.completion import complete_engine, complete_operations, complete_preset
from thermocline.cli.options import (
    DirOption,
    DryRunOption,
    DsnOption,
    JsonOption,
    LocalOption,
    NoWaitOption,
    TableArgument,
    flag,
    option,
    read_settings,
    read_table_name,
    setting_option,
    table_argument,
)
from thermocline.cli.output import print_json, print_lines, print_table
from thermocline.cli.progress import show_progress
from thermocline.core.messages.nearest import render_nearest
from thermocline.core.policy.operations import parse_operations
from thermocline.errors import EngineUnknown, UsageError
from thermocline.runtime.settings import MAINTENANCE_ENGINES
from thermocline.stack.locate import require_dsn


def add_commands(app: typer.Typer) -> None:
    app.command("maintain")(maintain)
    app.command("policy")(policy)


def maintain(
    table: TableArgument,
    operations: Annotated[
        str, option("--operations", "Operations, comma-separated.", default="all", complete=complete_operations)
    ] = "",
    where: Annotated[str | None, option("--where", "Partitions to compact: day = '2026-03-15'.", default="all")] = None,
    engine: Annotated[
        str | None,
        setting_option("maintenance_engine", "--engine", complete=complete_engine),
    ] = None,
    ignore_pacing: Annotated[bool, flag("--ignore-pacing", "Run in quiet windows and at full speed.")] = False,
    directory: DirOption = None,
    dsn: DsnOption = None,
    dry_run: DryRunOption = False,
    local: LocalOption = False,
    no_wait: NoWaitOption = False,
    timeout_seconds: Annotated[float, option("--timeout", "Longest wait for the worker, in seconds.")] = 120,
    json: JsonOption = False,
) -> None:
    """Run a maintenance pass over a table's lake, now."""
    from thermocline.maintain.context import PassRequest
    from thermocline.maintain.format.plugins import load_formats
    from thermocline.maintain.pass_requests import force_pass

    load_formats()
    if engine is not None and engine not in MAINTENANCE_ENGINES:
        raise EngineUnknown(
            f"unknown THERMOCLINE_MAINTENANCE_ENGINE {engine!r}", hint=render_nearest(engine, MAINTENANCE_ENGINES)
        )
    request = PassRequest(
        operations=parse_operations(operations),
        where=where,
        engine=engine,
        dry_run=dry_run,
        ignore_pacing=ignore_pacing,
    )
    loaded = read_settings(dir=directory, dsn=dsn)
    with show_progress(silent=json) as report_progress:
        report = force_pass(
            require_dsn(loaded),
            read_table_name(loaded, table),
            settings=loaded.values,
            request=request,
            report_progress=report_progress,
            local=local,
            wait=not no_wait,
            timeout_seconds=timeout_seconds,
        )
    if json:
        print_json(report)
    else:
        print_lines(render_report(report))
        if report.get("dry_run"):
            print_plan(report)
    if report.get("status") == "failed":
        raise typer.Exit(1)


def render_report(report: dict[str, Any]) -> list[str]:
    """The result sentence; for a dry run also the bounds it must honour."""
    if "sentence" not in report:
        return [f"{report['table']}: request {report['request']} is {report['state']}"]
    lines = [report["sentence"]]
    if report["dry_run"] and (bounds := report["bounds"]):
        holder = f", held by {bounds['floor_holder']}" if bounds["floor_holder"] else ""
        lines.append(
            f"bounds: floor snapshot {bounds['floor_snapshot']}{holder}; {bounds['protected_files']} protected files"
        )
    return [*lines, *(f"warning: {warning}" for warning in report["warnings"])]


def print_plan(report: dict[str, Any]) -> None:
    """What each operation of a dry run would do."""
    print_table(
        ["operation", "status", "would do"],
        (
            [outcome["operation"], outcome["status"], detail]
            for outcome in report["outcomes"]
            for detail in (outcome["details"] or [outcome["sentence"]])
        ),
    )


def policy(
    table: Annotated[str, table_argument("a table; 'namespace.*' or '*' for many")],
    set_: Annotated[list[str] | None, option("--set", "May be repeated.", default="none", metavar="KEY=VALUE")] = None,
    unset: Annotated[
        list[str] | None, option("--unset", "Return to the default; may be repeated.", default="none", metavar="KEY")
    ] = None,
    preset: Annotated[
        str | None, option("--preset", "modak, seaweedfs or artemis.", default="unchanged", complete=complete_preset)
    ] = None,
    reset: Annotated[bool, flag("--reset", "Return every key to its default.")] = False,
    s3_tables: Annotated[
        Path | None, option("--s3-tables", "JSON file with settings in the S3 Tables style.", default="none")
    ] = None,
    directory: DirOption = None,
    dsn: DsnOption = None,
    json: JsonOption = False,
) -> None:
    """Show or change the maintenance policy of a table, each value with its origin."""
    from thermocline.core.policy.policy_layers import PolicyChanges, parse_changes
    from thermocline.core.policy.s3_tables import parse_s3_tables
    from thermocline.maintain.format.plugins import load_formats
    from thermocline.maintain.policies import PolicyRequest, policy_of

    load_formats()
    changes = parse_changes(set_ or [], preset)
    if s3_tables is not None:
        given = parse_s3_tables(_read_json(s3_tables))
        changes = PolicyChanges(values={**given.values, **changes.values}, preset=changes.preset)
    loaded = read_settings(dir=directory, dsn=dsn)
    scope = table if table.endswith("*") else str(read_table_name(loaded, table))
    view = policy_of(
        require_dsn(loaded), scope, PolicyRequest(changes=changes, unset=unset or (), reset=reset), loaded.values
    )
    if json:
        print_json(view)
    else:
        print_lines(view.text)


def _read_json(path: Path) -> object:
    try:
        return json_module.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise UsageError(f"{path} cannot be read as JSON: {problem}.") from None
