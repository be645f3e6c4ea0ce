"""fold: corrections into the lake."""

from __future__ import annotations

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
from thermocline.cli.output import print_report, tell
from thermocline.core.names import parse_table_name
from thermocline.stack.locate import require_dsn


def add_commands(app: typer.Typer) -> None:
    app.command("fold")(fold)


def fold(
    table: TableArgument,
    directory: DirOption = None,
    dsn: DsnOption = None,
    dry_run: DryRunOption = False,
    local: LocalOption = False,
    no_wait: NoWaitOption = False,
    timeout_seconds: TimeoutOption = 3600,
    json: JsonOption = False,
) -> None:
    """Move every correction that waits in the delta into the lake, now."""
    from thermocline.ops.ask import perform_on_request

    name = parse_table_name(table)
    loaded = read_settings(dir=directory, dsn=dsn)
    where = require_dsn(loaded)
    if dry_run:
        from thermocline.ops.fold import fold as plan_fold
        from thermocline.ops.perform import render_report
        from thermocline.ops.sessions import spark_source

        report = render_report(plan_fold(where, name, settings=loaded.values, spark=spark_source(where, loaded.values), dry_run=True))
    else:
        report = perform_on_request(
            "fold",
            where,
            name,
            settings=loaded.values,
            talk=tell if not json else lambda _line: None,
            local=local,
            wait=not no_wait,
            timeout_seconds=timeout_seconds,
        )
    print_report(report, json=json)
