"""advise: which mode suits a table."""

from __future__ import annotations

from typing import Annotated

import typer

from thermocline.cli.options import (
    DirOption,
    DsnOption,
    JsonOption,
    TableArgument,
    flag,
    read_settings,
    read_table_name,
)
from thermocline.cli.output import print_json, print_lines
from thermocline.stack.locate import require_dsn

KeepOption = Annotated[
    bool,
    flag("--keep-everything", "Postgres must keep every row, however old."),
]
SecondsOption = Annotated[
    bool,
    flag("--trail-seconds", "The lake must trail Postgres by seconds."),
]


def add_commands(app: typer.Typer) -> None:
    app.command("advise")(advise)


def advise(
    table: TableArgument,
    keep_everything: KeepOption = False,
    trail_seconds: SecondsOption = False,
    directory: DirOption = None,
    dsn: DsnOption = None,
    json: JsonOption = False,
) -> None:
    """Recommend a mode for a table, with reasons, and say what `register` would refuse; nothing is changed."""
    from thermocline.core.modes.advice import Needs
    from thermocline.ops.inspect.advise import advise_table

    needs = Needs(keep_everything=keep_everything, trail_seconds=trail_seconds)
    loaded = read_settings(dir=directory, dsn=dsn)
    advice = advise_table(require_dsn(loaded), read_table_name(loaded, table), needs, loaded.values)
    if json:
        print_json(advice)
    else:
        print_lines(advice.lines)
