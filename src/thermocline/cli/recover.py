"""recover: bring the lake to a database that was restored to an earlier moment."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from thermocline.cli.options import DirOption, DsnOption, JsonOption, flag, read_settings
from thermocline.cli.output import print_json, print_lines
from thermocline.stack.locate import require_dsn


def add_commands(app: typer.Typer) -> None:
    app.command("recover")(recover)


def recover(
    dry_run: Annotated[bool, flag("--dry-run", "Say what would be done.")] = False,
    directory: DirOption = None,
    dsn: DsnOption = None,
    json: JsonOption = False,
) -> None:
    """Bring every lake to the newest state that agrees with a restored database; leaves with 1 when files are
    missing."""
    from thermocline.ops.admin.recover import recover as apply_recovery

    loaded = read_settings(dir=directory, dsn=dsn)
    report = apply_recovery(require_dsn(loaded), dry_run=dry_run)
    if json:
        print_json({"ok": report.is_complete, "dry_run": report.dry_run, "tables": report.tables})
    else:
        for table in report.tables:
            print_lines([table.sentence, *(f"  missing: {file.path}" for file in table.missing[:20])])
            if len(table.missing) > 20:
                print_lines([f"  and {len(table.missing) - 20} more; --json lists all"])
        if not report.tables:
            print_lines(["no lake belongs to this database"])
    if not report.is_complete:
        sys.exit(1)
