"""truncate: remove every row of a registered table from both tiers in one transaction."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

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
from thermocline.cli.output import print_json, print_lines, print_table
from thermocline.cli.progress import show_progress
from thermocline.stack.locate import require_dsn


def add_commands(app: typer.Typer) -> None:
    app.command("truncate")(truncate)


def truncate(
    table: TableArgument,
    directory: DirOption = None,
    dsn: DsnOption = None,
    yes: Annotated[
        str | None,
        option("--yes", "The table's name, for scripts.", default="it is asked for", metavar="NAME"),
    ] = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Remove every row of a table from both tiers; asks for the table's name."""
    loaded = read_settings(dir=directory, dsn=dsn)
    name = read_table_name(loaded, table)
    if not dry_run:
        check_name_typed(
            name,
            yes,
            flag="--yes",
            warning=f"Every row of {name} will be removed, from the heap and from the lake.",
            refusal=f"{name} is not truncated",
        )
    where = require_dsn(loaded)
    from thermocline.ops.requests.lazy_spark import lazy_spark_session
    from thermocline.ops.truncate import truncate as apply_truncate

    with show_progress(silent=json) as report_progress:
        report = apply_truncate(
            where,
            name,
            settings=loaded.values,
            spark=lazy_spark_session(where, loaded.values),
            report_progress=report_progress,
            dry_run=dry_run,
        )
    if json:
        print_json({**asdict(report), "sentence": report.sentence})
        return
    if dry_run:
        rows: list[tuple[str, str, str | None]] = [
            ("heap, with the spill", f"{report.heap_rows:,}", None),
            ("corrections that wait", f"{report.corrections:,}", None),
            ("lake", f"{report.lake_rows:,}", f"{report.lake_files:,}"),
        ]
        print_table(["tier", "rows that would go", "files"], rows)
    print_lines([*report.notes, report.sentence])
