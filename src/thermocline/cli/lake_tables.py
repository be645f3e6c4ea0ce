"""lake: maintenance of lake tables that are not registered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from thermocline.cli.options import DirOption, DsnOption, JsonOption, list_without_command, option, read_settings
from thermocline.cli.output import print_json, print_lines, print_table
from thermocline.core.names import parse_table_name
from thermocline.stack.locate import require_dsn

if TYPE_CHECKING:
    from thermocline.maintain.lake_tables import LakeChange

LakeTableArgument = Annotated[
    str, typer.Argument(metavar="NAMESPACE.TABLE", help="the table's name in the Iceberg catalog")
]
lake_tables = typer.Typer(help="List, add or remove lake tables to be maintained that are not registered.")


def add_commands(app: typer.Typer) -> None:
    list_without_command(lake_tables, list_tables)
    app.add_typer(lake_tables, name="lake")


@lake_tables.command("list")
def list_tables(directory: DirOption = None, dsn: DsnOption = None, json: JsonOption = False) -> None:
    """List every lake table under maintenance, registered or not; without a command, too."""
    from thermocline.maintain.lake_tables import read_list

    found = read_list(require_dsn(read_settings(dir=directory, dsn=dsn)))
    if json:
        print_json(found)
        return
    print_table(
        ["table", "lake", "registered", "format", "next pass", "state"],
        (
            [
                *(t.table, t.lake, "yes" if t.registered else "no", t.format),
                *(t.next_pass and f"{t.next_pass:%Y-%m-%d %H:%M:%S}", t.state),
            ]
            for t in found
        ),
    )


@lake_tables.command("add")
def add(
    table: LakeTableArgument,
    format: Annotated[str, option("--format", "The format of the table.")] = "iceberg",
    directory: DirOption = None,
    dsn: DsnOption = None,
    json: JsonOption = False,
) -> None:
    """Put a lake table under maintenance."""
    from thermocline.maintain.lake_tables import add_table

    where = require_dsn(read_settings(dir=directory, dsn=dsn))
    _print_change(add_table(where, parse_table_name(table), format=format), json)


@lake_tables.command("remove")
def remove(
    table: LakeTableArgument, directory: DirOption = None, dsn: DsnOption = None, json: JsonOption = False
) -> None:
    """End the maintenance of a lake table; its files stay as they are."""
    from thermocline.maintain.lake_tables import remove_table

    where = require_dsn(read_settings(dir=directory, dsn=dsn))
    _print_change(remove_table(where, parse_table_name(table)), json)


@lake_tables.command("restore")
def restore(
    table: LakeTableArgument, directory: DirOption = None, dsn: DsnOption = None, json: JsonOption = False
) -> None:
    """Move quarantined files of a table back to where they were."""
    from thermocline.maintain.lake_tables import restore_orphans

    where = require_dsn(read_settings(dir=directory, dsn=dsn))
    _print_change(restore_orphans(where, parse_table_name(table)), json)


def _print_change(change: LakeChange, json: bool) -> None:
    if json:
        print_json(change)
    else:
        print_lines([change.sentence])
