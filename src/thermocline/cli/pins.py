"""pins: which snapshots readers outside Postgres hold, and letting go of one."""

from __future__ import annotations

from typing import Annotated

import typer

from thermocline.cli.options import (
    DirOption,
    DsnOption,
    JsonOption,
    option,
    read_settings,
    read_table_name,
    table_argument,
)
from thermocline.cli.output import print_json, print_lines, print_table
from thermocline.stack.locate import require_dsn

OptionalTable = Annotated[str | None, table_argument("a table; all when none is named")]


def add_commands(app: typer.Typer) -> None:
    app.command("pins")(pins)


def pins(
    table: OptionalTable = None,
    release_id: Annotated[
        int | None,
        option("--release", "Release this pin, whoever holds it.", default="none", metavar="ID"),
    ] = None,
    directory: DirOption = None,
    dsn: DsnOption = None,
    json: JsonOption = False,
) -> None:
    """List the pins of readers outside Postgres, or release one."""
    from thermocline.ops.admin.pins import read_pin_list, release

    loaded = read_settings(dir=directory, dsn=dsn)
    where = require_dsn(loaded)
    if release_id is not None:
        report = release(where, release_id)
        if json:
            print_json(report)
        else:
            print_lines([report.sentence])
        return
    listed = read_pin_list(where, None if table is None else read_table_name(loaded, table))
    if json:
        print_json(listed)
        return
    print_table(
        ["pin", "table", "snapshot", "holder", "pinned", "expires", "holds back"],
        ([p.id, p.table, p.snapshot_id, p.holder, p.pinned_at, p.expires_at, p.holds_back] for p in listed),
    )
