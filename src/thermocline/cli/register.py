"""The `register` and `unregister` commands."""

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
    flag,
    option,
    read_settings,
    setting_option,
)
from thermocline.cli.output import print_json, print_lines, progress_printer
from thermocline.core.modes.registration_options import DEFAULT_OPTION, render_heap_retention_help, render_mode_help
from thermocline.core.names import parse_column_names, parse_table_name
from thermocline.stack.locate import require_dsn

if TYPE_CHECKING:
    from thermocline.ops.register.registration import RegisterReport


def add_commands(app: typer.Typer) -> None:
    app.command("register")(register)
    app.command("unregister")(unregister)


ModeOption = Annotated[str, option("--mode", render_mode_help())]
KeepHeapOption = Annotated[bool, flag("--keep-heap", "Copy to the lake and drop nothing from the heap.")]
PkOption = Annotated[
    str | None, option("--pk", "Columns of the row's identity, comma-separated.", default="the primary key")
]
TierKeyOption = Annotated[str | None, option("--tier-key", "Column the table ages along.", default="the partition key")]
TieringLagOption = Annotated[
    str | None,
    setting_option("tiering_lag", "--tiering-lag", "How far behind the newest row a partition must be.", default="0"),
]
ReclaimLagOption = Annotated[
    str | None,
    setting_option(
        "reclaim_lag", "--reclaim-lag", "How long a tiered partition stays in the heap.", default="the tiering lag"
    ),
]
LakeRetentionOption = Annotated[
    str | None,
    option("--lake-retention", "How far below T the lake keeps rows; older ones are deleted.", default="forever"),
]
HeapRetentionOption = Annotated[str | None, option("--heap-retention", render_heap_retention_help(), default="none")]
LakePartitionOption = Annotated[
    str | None,
    option(
        "--lake-partition", "hour, day, month, year, width:N or none.", default="derived from the heap's partitions"
    ),
]
PartitionWidthOption = Annotated[
    str | None, option("--partition-width", "Width of a heap partition.", default="that of the newest partitions")
]
PremakeOption = Annotated[
    int | None,
    option("--premake", "Partitions kept ready above the newest row; 0 makes none.", default="premake_partitions, 2"),
]
ProfileOption = Annotated[
    str | None,
    option(
        "--profile",
        "Storage profile that the lake is created in.",
        default="the default profile, else the settings' warehouse",
    ),
]
PresetOption = Annotated[
    str | None,
    option("--preset", "Maintenance preset: modak, seaweedfs or artemis.", default="the settings' maintenance_preset"),
]
SeamSchemaOption = Annotated[
    str | None, option("--seam-schema", "Schema of the spanning view.", default="<schema>_all")
]
AdoptLakeOption = Annotated[
    bool, flag("--adopt-lake", "Adopt the lake that an earlier unregistration of this table left.")
]
IncarnationOption = Annotated[
    str | None,
    option(
        "--incarnation", "Adopt the lake although the table was created again since: the lake's id.", default="none"
    ),
]


def register(
    table: TableArgument,
    directory: DirOption = None,
    dsn: DsnOption = None,
    mode: ModeOption = DEFAULT_OPTION,
    keep_heap: KeepHeapOption = False,
    pk: PkOption = None,
    tier_key: TierKeyOption = None,
    tiering_lag: TieringLagOption = None,
    reclaim_lag: ReclaimLagOption = None,
    lake_retention: LakeRetentionOption = None,
    heap_retention: HeapRetentionOption = None,
    lake_partition: LakePartitionOption = None,
    partition_width: PartitionWidthOption = None,
    premake: PremakeOption = None,
    profile: ProfileOption = None,
    preset: PresetOption = None,
    seam_schema: SeamSchemaOption = None,
    adopt_lake: AdoptLakeOption = False,
    incarnation: IncarnationOption = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Make a partitioned table span Postgres and the lake."""
    from thermocline.ops.register.registration import RegisterRequest
    from thermocline.ops.register.registration import register as apply_register

    request = RegisterRequest(
        table=parse_table_name(table),
        pk=None if pk is None else parse_column_names(pk),
        tier_key=None if tier_key is None else parse_column_names(tier_key)[0],
        mode=mode,
        keep_heap=keep_heap,
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
    report = apply_register(
        require_dsn(loaded), request, settings=loaded.values, report_progress=progress_printer(silent=json)
    )
    if json:
        print_json(report)
    else:
        print_lines(render_registered(report, dry_run=dry_run))


def render_registered(report: RegisterReport, *, dry_run: bool) -> list[str]:
    if report.already:
        return [f"{report.table} is registered already; its seam is {report.seam}"]
    verb = "would be registered" if dry_run else "is registered"
    return [*(report.steps if dry_run else ()), f"{report.table} {verb}; its seam is {report.seam}"]


def unregister(
    table: TableArgument,
    directory: DirOption = None,
    dsn: DsnOption = None,
    fold_first: Annotated[bool, flag("--fold", "Fold corrections that wait into the lake first.")] = False,
    restore_heap: Annotated[
        bool, flag("--restore-heap", "Copy history back into partitions of the heap first.")
    ] = False,
    drop_lake: Annotated[
        bool, flag("--drop-lake", "Delete the lake and every row in it; asks for the table's name.")
    ] = False,
    yes_drop: Annotated[
        str | None,
        option("--yes-drop", "The table's name, for scripts that drop the lake.", default="it is asked for"),
    ] = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Undo a registration: the table is an ordinary one again. The lake is kept unless it is to be dropped."""
    from thermocline.ops.register.unregistration import unregister as apply_unregister

    name = parse_table_name(table)
    if drop_lake and not dry_run:
        check_name_typed(
            name,
            yes_drop,
            flag="--yes-drop",
            warning=f"The lake of {name} may hold the only copy of its history, and will be deleted.",
            refusal=f"The lake of {name} is not deleted",
        )
    loaded = read_settings(dir=directory, dsn=dsn)
    report = apply_unregister(
        require_dsn(loaded),
        name,
        settings=loaded.values,
        fold_first=fold_first,
        restore_heap=restore_heap,
        drop_lake=drop_lake,
        dry_run=dry_run,
        report_progress=progress_printer(silent=json),
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
