"""register, unregister, tables, show, tier: tables that span."""

from __future__ import annotations

from typing import Annotated

import typer

from thermocline.cli.options import DirOption, DryRunOption, DsnOption, JsonOption, TableArgument, read_settings
from thermocline.cli.output import print_json, print_lines, tell
from thermocline.core.names import parse_table_name
from thermocline.stack.locate import require_dsn


def add_commands(app: typer.Typer) -> None:
    app.command("register")(register)


def register(
    table: TableArgument,
    directory: DirOption = None,
    dsn: DsnOption = None,
    tiering_lag: Annotated[
        str | None,
        typer.Option(
            "--tiering-lag",
            help="How far behind the newest row a partition must be. [env: THERMOCLINE_TIERING_LAG] [default: 0]",
            show_default=False,
        ),
    ] = None,
    reclaim_lag: Annotated[
        str | None,
        typer.Option(
            "--reclaim-lag",
            help="How long a tiered partition stays in the heap. [env: THERMOCLINE_RECLAIM_LAG] [default: the tiering lag]",
            show_default=False,
        ),
    ] = None,
    lake_partition: Annotated[
        str | None,
        typer.Option(
            "--lake-partition", help="Partitioning of the lake table. [default: derived from the heap's partitions]", show_default=False
        ),
    ] = None,
    seam_schema: Annotated[
        str | None, typer.Option("--seam-schema", help="Schema of the spanning view. [default: <schema>_all]", show_default=False)
    ] = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Make a partitioned table span Postgres and the lake."""
    from thermocline.ops.register import RegisterRequest
    from thermocline.ops.register import register as apply_register

    request = RegisterRequest(
        table=parse_table_name(table),
        tiering_lag=tiering_lag,
        reclaim_lag=reclaim_lag,
        lake_partition=lake_partition,
        seam_schema=seam_schema,
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
