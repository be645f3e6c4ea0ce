"""The `register` and `unregister` commands."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from thermocline.cli.completion import complete_mode, complete_preset, complete_profile
from thermocline.cli.confirm import check_agreed, check_name_typed
from thermocline.cli.options import (
    DirOption,
    DryRunOption,
    DsnOption,
    JsonOption,
    TableArgument,
    flag,
    option,
    read_settings,
    read_table_name,
    setting_option,
)
from thermocline.cli.output import print_json, print_lines, print_message
from thermocline.cli.preview import print_preview, print_steps
from thermocline.cli.progress import show_progress
from thermocline.cli.start import start_confirmed
from thermocline.core.modes.registration_options import DEFAULT_OPTION, render_heap_retention_help, render_mode_help
from thermocline.core.names import parse_column_names
from thermocline.stack.locate import require_dsn

if TYPE_CHECKING:
    from thermocline.ops.register.registration import RegisterReport
    from thermocline.ops.register.unregistration import UnregisterReport


def add_commands(app: typer.Typer) -> None:
    app.command("register")(register)
    app.command("unregister")(unregister)


ModeOption = Annotated[str | None, option("--mode", render_mode_help(), default=DEFAULT_OPTION, complete=complete_mode)]
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
        "reclaim_lag",
        "--reclaim-lag",
        "How long a tiered partition stays in the heap, from its move on.",
        default="0, until no reader needs it",
    ),
]
LakeRetentionOption = Annotated[
    str | None,
    option("--lake-retention", "How far below T the lake keeps rows; older ones are deleted.", default="none, forever"),
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
        complete=complete_profile,
    ),
]
PresetOption = Annotated[
    str | None,
    option(
        "--preset",
        "Maintenance preset: modak, seaweedfs or artemis.",
        default="the settings' maintenance_preset",
        complete=complete_preset,
    ),
]
SeamSchemaOption = Annotated[
    str | None, option("--seam-schema", "Schema of the spanning view.", default="<schema>_all")
]
AdoptLakeOption = Annotated[
    bool,
    flag(
        "--adopt-lake",
        "Adopt the lake that an earlier unregistration of this table left, with its mode, lags and policy.",
    ),
]
StartOption = Annotated[
    bool, flag("--start", "Let partitions move by themselves at once, as `thermocline start` does.")
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
    mode: ModeOption = None,
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
    start: StartOption = False,
    yes: Annotated[
        str | None,
        option(
            "--yes",
            "The table's name, for scripts that start a table whose retention deletes rows of a lake.",
            default="it is asked for",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Make a partitioned table span Postgres and the lake; it moves nothing by itself until it is started."""
    from thermocline.ops.register.registration import RegisterRequest
    from thermocline.ops.register.registration import register as apply_register

    loaded = read_settings(dir=directory, dsn=dsn)
    request = RegisterRequest(
        table=read_table_name(loaded, table),
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
        # What the retention deletes from a lake that is adopted is known once it is; then it is asked for.
        start=start and (dry_run or not adopt_lake),
        dry_run=dry_run,
    )
    with show_progress(silent=json) as report_progress:
        report = apply_register(require_dsn(loaded), request, settings=loaded.values, report_progress=report_progress)
    if start and not report.is_started and not dry_run:
        started = start_confirmed(require_dsn(loaded), request.table, yes)
        report = replace(report, is_started=True, expiry=started.expiry)
    if json:
        print_json(report)
        return
    if dry_run and not report.already:
        print_steps(f"would be made for {report.table}", report.steps)
    notes = [f"note: {note}" for note in report.notes if note not in report.preview.held_back]
    print_lines([*notes, render_registered(report, dry_run=dry_run)])
    print_preview(report.preview)
    if report.expiry is not None:
        print_lines([str(report.expiry)])
    print_lines([render_when(report, loaded.values.cycle_interval_seconds)])


def render_registered(report: RegisterReport, *, dry_run: bool) -> str:
    verb = "is registered already" if report.already else "would be registered" if dry_run else "is registered"
    return f"{report.table} {verb}; its seam is {report.seam}"


def render_when(report: RegisterReport, cycle_seconds: float) -> str:
    """When what the preview shows happens, and what ends or begins it."""
    if report.is_started:
        cycle = f"within {cycle_seconds:g} seconds"
        return f"the worker does this by itself, {cycle}; `thermocline stop {report.table}` ends it"
    return (
        f"nothing moves by itself until `thermocline start {report.table}`; `thermocline tier {report.table}` moves it "
        "by hand, once"
    )


def render_rows_leaving(report: UnregisterReport) -> str | None:
    """The rows that the table is without afterwards; None where there are none."""
    if not report.rows_leaving or report.rows_restored:
        return None
    return (
        f"{report.rows_leaving:,} of the {report.rows_in_lake:,} rows in the lake are nowhere else: they stay there "
        f"and leave {report.table}; `register --adopt-lake` brings them back, and --restore-heap keeps them in the heap"
    )


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
    yes: Annotated[bool, flag("--yes", "Do not ask before rows that only the lake holds leave the table.")] = False,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Undo a registration: the table is an ordinary one again. The lake is kept unless it is to be dropped."""
    from thermocline.ops.register.unregistration import unregister as apply_unregister

    loaded = read_settings(dir=directory, dsn=dsn)
    name = read_table_name(loaded, table)
    if drop_lake and not dry_run:
        check_name_typed(
            name,
            yes_drop,
            flag="--yes-drop",
            warning=f"The lake of {name} may hold the only copy of its history, and will be deleted.",
            refusal=f"The lake of {name} is not deleted",
        )
    apply = partial(
        apply_unregister,
        require_dsn(loaded),
        name,
        settings=loaded.values,
        fold_first=fold_first,
        restore_heap=restore_heap,
        drop_lake=drop_lake,
    )
    if not (dry_run or drop_lake or restore_heap or yes) and (leaving := render_rows_leaving(apply(dry_run=True))):
        print_message(leaving)
        check_agreed(f"Unregister {name}?", refusal=f"{name} stays registered")
    with show_progress(silent=json) as report_progress:
        report = apply(dry_run=dry_run, report_progress=report_progress)
    if json:
        print_json(report)
        return
    if dry_run:
        print_steps(f"would be removed from {report.table}", report.removed)
    print_lines(render_unregistered(report, dry_run=dry_run))


def render_unregistered(report: UnregisterReport, *, dry_run: bool) -> list[str]:
    """What was removed, and where the rows are; of a dry run, only what its table does not say."""
    lines = [] if report.was_registered else [f"{report.table} is not registered"]
    if not dry_run:
        lines += [f"removed {what}" for what in report.removed]
    elif leaving := render_rows_leaving(report):
        lines.append(leaving)
    if dry_run and report.rows_restored:
        lines.append(f"{report.rows_restored:,} rows that only the lake holds would be in the heap again")
    elif report.restored:
        lines.append(f"{report.rows_restored:,} rows are in the heap again, in {', '.join(report.restored)}")
    if report.lake_kept_at:
        verb = "would be kept" if dry_run else "is kept"
        lines.append(f"the lake {verb} in {report.lake_kept_at}; " + "; ".join(report.notes))
    return lines
