"""truncate: remove every row of a registered table from both tiers in one transaction."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from thermocline.cli.confirm import check_name_typed
from thermocline.cli.options import DirOption, DryRunOption, DsnOption, JsonOption, TableArgument, option, read_settings
from thermocline.cli.output import print_json, print_lines, progress_printer
from thermocline.core.names import parse_table_name
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
    name = parse_table_name(table)
    if not dry_run:
        check_name_typed(
            name,
            yes,
            flag="--yes",
            warning=f"Every row of {name} will be removed, from the heap and from the lake.",
            refusal=f"{name} is not truncated",
        )
    loaded = read_settings(dir=directory, dsn=dsn)
    where = require_dsn(loaded)
    from thermocline.ops.requests.lazy_spark import lazy_spark_session
    from thermocline.ops.truncate import truncate as apply_truncate

    report = apply_truncate(
        where,
        name,
        settings=loaded.values,
        spark=lazy_spark_session(where, loaded.values),
        report_progress=progress_printer(silent=json),
        dry_run=dry_run,
    )
    if json:
        print_json({**asdict(report), "sentence": report.sentence})
    else:
        print_lines([*report.notes, report.sentence])
