"""pause, resume: stop and resume everything that changes a table or its lake."""

from __future__ import annotations

from typing import Annotated

import typer

from thermocline.cli.options import DirOption, DsnOption, JsonOption, read_settings, read_table_name, table_argument
from thermocline.cli.output import print_json, print_lines
from thermocline.stack.locate import require_dsn

OptionalTable = Annotated[str | None, table_argument("a table; every table when none is named")]


def add_commands(app: typer.Typer) -> None:
    app.command("pause")(pause)
    app.command("resume")(resume)


def pause(
    table: OptionalTable = None, directory: DirOption = None, dsn: DsnOption = None, json: JsonOption = False
) -> None:
    """Stop tiering, folding, maintenance and deletion, for one table or for all."""
    from thermocline.ops.admin.pause import pause as apply_pause

    loaded = read_settings(dir=directory, dsn=dsn)
    report = apply_pause(require_dsn(loaded), None if table is None else read_table_name(loaded, table))
    if json:
        print_json(report)
        return
    what = report.table or "every table"
    lines = [
        f"{what} is paused" if report.changed else f"{what} is paused already",
        "until `thermocline resume`, this stops:",
    ]
    lines += [f"  {line}" for line in report.stops]
    lines += ["this goes on:", *(f"  {line}" for line in report.goes_on)]
    print_lines([*lines, *(f"{name} is being worked on; that step is finished first" for name in report.busy)])


def resume(
    table: OptionalTable = None, directory: DirOption = None, dsn: DsnOption = None, json: JsonOption = False
) -> None:
    """Resume a paused table, or all of them."""
    from thermocline.ops.admin.pause import resume as apply_resume

    loaded = read_settings(dir=directory, dsn=dsn)
    report = apply_resume(require_dsn(loaded), None if table is None else read_table_name(loaded, table))
    if json:
        print_json(report)
        return
    what = report.table or "every table"
    if report.still_paused:
        print_lines([f"{what} stays paused, because every table is; `thermocline resume` without a table resumes all"])
    else:
        print_lines([f"{what} is resumed" if report.changed else f"{what} is not paused"])
