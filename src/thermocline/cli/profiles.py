"""profile: storage profiles, the named warehouses that lake tables are created in."""

from __future__ import annotations

from typing import Annotated

import typer

from thermocline.cli.completion import complete_profile
from thermocline.cli.options import DirOption, DsnOption, JsonOption, flag, list_without_command, option, read_settings
from thermocline.cli.output import print_json, print_lines, print_table
from thermocline.stack.locate import require_dsn

profiles = typer.Typer(
    help="List, add or remove storage profiles: the warehouses where `register --profile` creates lake tables."
)


def add_commands(app: typer.Typer) -> None:
    list_without_command(profiles, list_profiles)
    app.add_typer(profiles, name="profile")


@profiles.command("list")
def list_profiles(directory: DirOption = None, dsn: DsnOption = None, json: JsonOption = False) -> None:
    """List the storage profiles; without a command, too."""
    from thermocline.ops.admin.profiles import list_profiles as read_profiles

    found = read_profiles(require_dsn(read_settings(dir=directory, dsn=dsn)))
    if json:
        print_json(found)
    elif not found:
        print_lines(["there is no storage profile; lake tables are created in the warehouse of the settings"])
    else:
        print_table(
            ["profile", "warehouse", "default", "tables"],
            ([p.name, p.warehouse, p.is_default, p.tables] for p in found),
        )


@profiles.command("add")
def add_profile(
    name: Annotated[str, typer.Argument(metavar="NAME", help="the name of the profile")],
    warehouse: Annotated[str, option("--warehouse", "Directory or bucket of its lake tables.")],
    default: Annotated[bool, flag("--default", "Use it when register names no profile.")] = False,
    directory: DirOption = None,
    dsn: DsnOption = None,
    json: JsonOption = False,
) -> None:
    """Add a storage profile, or make it the default."""
    from thermocline.ops.admin.profiles import add_profile as apply_add

    added = apply_add(require_dsn(read_settings(dir=directory, dsn=dsn)), name, warehouse, is_default=default)
    if json:
        print_json(added)
    else:
        print_lines([f"profile {added.name} exists; its warehouse is {added.warehouse}"])


@profiles.command("remove")
def remove_profile(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="the name of the profile", autocompletion=complete_profile)
    ],
    directory: DirOption = None,
    dsn: DsnOption = None,
    json: JsonOption = False,
) -> None:
    """Remove a storage profile that no lake is in; its warehouse stays."""
    from thermocline.ops.admin.profiles import remove_profile as apply_remove

    removed = apply_remove(require_dsn(read_settings(dir=directory, dsn=dsn)), name)
    if json:
        print_json(removed)
    else:
        print_lines([f"profile {removed.name} is removed; its warehouse {removed.warehouse} stays as it is"])
