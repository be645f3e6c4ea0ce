"""register, unregister, tables, tier: tables that span."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from thermocline.cli.options import (
    DirOption,
    DryRunOption,
    DsnOption,
    JsonOption,
    LocalOption,
    NoWaitOption,
    TableArgument,
    TimeoutOption,
    read_settings,
)
from thermocline.cli.output import print_json, print_lines, print_report, print_table, tell
from thermocline.core.names import parse_column_names, parse_table_name
from thermocline.errors import NameNotTyped
from thermocline.stack.locate import require_dsn


def add_commands(app: typer.Typer) -> None:
    app.command("register")(register)
    app.command("unregister")(unregister)
    app.command("tables")(tables)
    app.command("tier")(tier)


def _option(flag: str, text: str) -> Any:
    return typer.Option(flag, help=text, show_default=False)


def register(
    table: TableArgument,
    directory: DirOption = None,
    dsn: DsnOption = None,
    mode: Annotated[str, _option("--mode", "tiered; mirrored is not built yet. [default: tiered]")] = "tiered",
    keep_heap: Annotated[bool, _option("--keep-heap", "Copy to the lake and drop nothing from the heap. [default: off]")] = False,
    pk: Annotated[str | None, _option("--pk", "Columns of the row's identity, comma-separated. [default: the primary key]")] = None,
    tier_key: Annotated[str | None, _option("--tier-key", "Column the table ages along. [default: the partition key]")] = None,
    tiering_lag: Annotated[
        str | None,
        _option("--tiering-lag", "How far behind the newest row a partition must be. [env: THERMOCLINE_TIERING_LAG] [default: 0]"),
    ] = None,
    reclaim_lag: Annotated[
        str | None,
        _option(
            "--reclaim-lag", "How long a tiered partition stays in the heap. [env: THERMOCLINE_RECLAIM_LAG] [default: the tiering lag]"
        ),
    ] = None,
    lake_retention: Annotated[
        str | None, _option("--lake-retention", "How far below T the lake keeps rows; older ones are deleted. [default: for ever]")
    ] = None,
    heap_retention: Annotated[str | None, _option("--heap-retention", "For mode mirrored only. [default: none]")] = None,
    lake_partition: Annotated[
        str | None,
        _option("--lake-partition", "hour, day, month, year, width:N or none. [default: derived from the heap's partitions]"),
    ] = None,
    partition_width: Annotated[
        str | None, _option("--partition-width", "Width of a heap partition. [default: read off the newest partitions]")
    ] = None,
    premake: Annotated[int | None, _option("--premake", "Partitions kept ready above the newest row; 0 makes none. [default: 2]")] = None,
    profile: Annotated[
        str | None,
        _option("--profile", "Storage profile the lake is made in. [default: the default profile, else the settings' warehouse]"),
    ] = None,
    preset: Annotated[
        str | None, _option("--preset", "Maintenance preset: modak, seaweedfs or artemis. [default: the settings' maintenance_preset]")
    ] = None,
    seam_schema: Annotated[str | None, _option("--seam-schema", "Schema of the spanning view. [default: <schema>_all]")] = None,
    adopt_lake: Annotated[
        bool, _option("--adopt-lake", "Take up the lake that an earlier unregistration of this table left. [default: off]")
    ] = False,
    incarnation: Annotated[
        str | None, _option("--incarnation", "Take the lake up although the table was made anew since: the lake's id. [default: none]")
    ] = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Make a partitioned table span Postgres and the lake."""
    from thermocline.ops.register import RegisterRequest
    from thermocline.ops.register import register as apply_register

    request = RegisterRequest(
        table=parse_table_name(table),
        mode=mode,
        keep_heap=keep_heap,
        pk=None if pk is None else parse_column_names(pk),
        tier_key=None if tier_key is None else parse_column_names(tier_key)[0],
        tiering_lag=tiering_lag,
        reclaim_lag=reclaim_lag,
        lake_retention=lake_retention,
        heap_retention=heap_retention,
        lake_partition=lake_partition,
        partition_width=partition_width,
        premake=premake,
        profile=profile,
        preset=preset,
        seam_schema=seam_schema,
        adopt_lake=adopt_lake,
        incarnation=incarnation,
        dry_run=dry_run,
    )
    loaded = read_settings(dir=directory, dsn=dsn)
    report = apply_register(require_dsn(loaded), request, settings=loaded.values, talk=tell if not json else lambda _line: None)
    if json:
        print_json(report)
    elif report.already:
        print_lines([f"{report.table} is registered already; its seam is {report.seam}"])
    else:
        verb = "would be registered" if dry_run else "is registered"
        print_lines([*(report.steps if dry_run else ()), f"{report.table} {verb}; its seam is {report.seam}"])


def unregister(
    table: TableArgument,
    directory: DirOption = None,
    dsn: DsnOption = None,
    fold_first: Annotated[bool, _option("--fold", "Fold corrections that wait into the lake first. [default: off]")] = False,
    restore_heap: Annotated[bool, _option("--restore-heap", "Copy history back into partitions of the heap first. [default: off]")] = False,
    drop_lake: Annotated[
        bool, _option("--drop-lake", "Delete the lake and every row in it; asks for the table's name. [default: off]")
    ] = False,
    yes_drop: Annotated[
        str | None, _option("--yes-drop", "The table's name, for scripts that drop the lake. [default: it is asked for]")
    ] = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Undo a registration: the table is an ordinary one again. The lake is kept unless it is to be dropped."""
    from thermocline.ops.unregister import unregister as apply_unregister

    name = parse_table_name(table)
    if drop_lake and not dry_run:
        check_name_typed(str(name), yes_drop)
    loaded = read_settings(dir=directory, dsn=dsn)
    report = apply_unregister(
        require_dsn(loaded),
        name,
        settings=loaded.values,
        fold_first=fold_first,
        restore_heap=restore_heap,
        drop_lake=drop_lake,
        dry_run=dry_run,
        talk=tell if not json else lambda _line: None,
    )
    if json:
        print_json(report)
        return
    verb = "would remove" if dry_run else "removed"
    lines = [] if report.was_registered else [f"{report.table} is not registered"]
    lines += [f"{verb} {what}" for what in report.removed]
    if report.restored:
        lines.append(f"{report.rows_restored:,} rows are in the heap again, in {', '.join(report.restored)}")
    if report.lake_kept_at:
        lines.append(f"the lake is kept in {report.lake_kept_at}; " + "; ".join(report.notes))
    print_lines(lines)


def check_name_typed(name: str, given: str | None) -> None:
    """What cannot be undone asks for the table's name: typed by a person, or given by a script, never assumed."""
    if given is None and sys.stdin.isatty():
        given = str(typer.prompt(f"The lake of {name} may hold the only copy of its history. Type {name} to delete it", err=True))
    if given != name:
        raise NameNotTyped(f"The lake of {name} is not deleted: its name was not given.")


def tables(directory: DirOption = None, dsn: DsnOption = None, json: JsonOption = False) -> None:
    """List the registered tables and where their lines stand."""
    from thermocline.ops.overview import read_overview

    loaded = read_settings(dir=directory, dsn=dsn)
    found = read_overview(require_dsn(loaded), connect_timeout_seconds=loaded.values.connect_timeout_seconds)
    if json:
        print_json(found)
    elif not found:
        print_lines(["no table is registered"])
    else:
        headings = ["table", "seam", "T", "partitions hot/tiered/dropped", "rows tiered", "corrections", "unfinished"]
        print_table(
            headings,
            (
                [
                    *(
                        f"{t.table} (paused)" if t.paused_since else t.table,
                        t.seam,
                        t.cut_line,
                        f"{t.hot_partitions}/{t.tiered_partitions}/{t.dropped_partitions}",
                    ),
                    *(f"{t.rows_tiered:,}", t.pending_corrections, t.unfinished_ops),
                ]
                for t in found
            ),
        )


def tier(
    table: TableArgument,
    directory: DirOption = None,
    dsn: DsnOption = None,
    dry_run: DryRunOption = False,
    local: LocalOption = False,
    no_wait: NoWaitOption = False,
    timeout_seconds: TimeoutOption = 3600,
    json: JsonOption = False,
) -> None:
    """Move every partition behind the lag to the lake, now."""
    from thermocline.ops.ask import perform_on_request

    name = parse_table_name(table)
    loaded = read_settings(dir=directory, dsn=dsn)
    where = require_dsn(loaded)
    if dry_run:
        from thermocline.ops.perform import render_report
        from thermocline.ops.sessions import spark_source
        from thermocline.ops.tier import tier as plan_tier

        report = render_report(plan_tier(where, name, settings=loaded.values, spark=spark_source(where, loaded.values), dry_run=True))
    else:
        report = perform_on_request(
            "tier",
            where,
            name,
            settings=loaded.values,
            talk=tell if not json else lambda _line: None,
            local=local,
            wait=not no_wait,
            timeout_seconds=timeout_seconds,
        )
    print_report(report, json=json)
