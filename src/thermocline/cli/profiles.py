"""profile: named places where lake tables are made."""

from __future__ import annotations

from typing import Annotated

import typer

from thermocline.cli.options import DirOption, DsnOption, JsonOption, read_settings
from thermocline.cli.output import print_json, print_lines, print_table
from thermocline.errors import UsageError
from thermocline.stack.locate import require_dsn


def add_commands(app: typer.Typer) -> None:
    app.command("profile")(profile)


def profile(
    action: Annotated[
        str, typer.Argument(metavar="list|add", help="list the profiles, or add one", show_default=False)
    ] = "list",
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="the profile to add", show_default=False)] = None,
    warehouse: Annotated[
        str | None,
        typer.Option(
            "--warehouse",
            help="Directory or bucket that its lake tables are made in. [default: none]",
            show_default=False,
        ),
    ] = None,
    default: Annotated[
        bool,
        typer.Option("--default", help="Use it when register names no profile. [default: off]", show_default=False),
    ] = False,
    directory: DirOption = None,
    dsn: DsnOption = None,
    json: JsonOption = False,
) -> None:
    """List or add storage profiles: the places where `register --profile` makes lake tables."""
    from thermocline.ops.admin.profiles import add_profile, list_profiles

    if action not in ("list", "add") or (action == "add" and (name is None or warehouse is None)):
        raise UsageError(
            "That is not a call of profile.",
            hint="thermocline profile list, or thermocline profile add NAME --warehouse LOCATION",
        )
    where = require_dsn(read_settings(dir=directory, dsn=dsn))
    if name is not None and warehouse is not None and action == "add":
        made = add_profile(where, name, warehouse, is_default=default)
        if json:
            print_json(made)
        else:
            print_lines([f"profile {made.name} is there; its warehouse is {made.warehouse}"])
        return
    found = list_profiles(where)
    if json:
        print_json(found)
    elif not found:
        print_lines(["there is no storage profile; lake tables are made in the warehouse of the settings"])
    else:
        print_table(
            ["profile", "warehouse", "default", "tables"],
            ([p.name, p.warehouse, p.is_default, p.tables] for p in found),
        )
