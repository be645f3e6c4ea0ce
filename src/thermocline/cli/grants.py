"""sync-grants: the seam's grants renewed from the heap's."""

from __future__ import annotations

import typer

from thermocline.cli.options import (
    DirOption,
    DryRunOption,
    DsnOption,
    JsonOption,
    TableArgument,
    read_settings,
    read_table_name,
)
from thermocline.cli.output import print_json, print_lines
from thermocline.stack.locate import require_dsn


def add_commands(app: typer.Typer) -> None:
    app.command("sync-grants")(sync_grants)


def sync_grants(
    table: TableArgument,
    directory: DirOption = None,
    dsn: DsnOption = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Grant on the seam what the heap grants, and revoke what it does not."""
    from thermocline.ops.admin.sync_grants import sync_grants as renew

    loaded = read_settings(dir=directory, dsn=dsn)
    report = renew(require_dsn(loaded), read_table_name(loaded, table), dry_run=dry_run)
    if json:
        print_json(report)
    else:
        print_lines([report.sentence])
