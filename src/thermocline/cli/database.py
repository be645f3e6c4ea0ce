"""init, settings, doctor: what a database and a machine need."""

from __future__ import annotations

from typing import Annotated

import typer

from thermocline.cli.options import (
    DirOption,
    DsnOption,
    JsonOption,
    TakeOverOption,
    WarehouseOption,
    flag,
    read_settings,
)
from thermocline.cli.output import print_json, print_lines, print_message, print_table
from thermocline.runtime.settings_layers import render_settings
from thermocline.stack.credentials import forget_password
from thermocline.stack.locate import require_dsn


def add_commands(app: typer.Typer) -> None:
    app.command("init")(init)
    app.command("settings")(settings)
    app.command("doctor")(doctor)


def init(
    directory: DirOption = None,
    dsn: DsnOption = None,
    warehouse: WarehouseOption = None,
    take_over: TakeOverOption = False,
    rotate_logins: Annotated[
        bool,
        flag("--rotate-logins", "Give every role's login at the gateway a new password."),
    ] = False,
    claim: Annotated[
        bool,
        flag("--claim", "Let this database have the lake of the one it was copied from, which must be gone for good."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Create or upgrade the catalog in a database, with the places of its lake and gateway; may be repeated."""
    from thermocline.ops.admin import init_database as ops
    from thermocline.ops.admin.places import wanted_places

    loaded = read_settings(dir=directory, dsn=dsn, warehouse=warehouse)
    patience = loaded.values.connect_timeout_seconds
    report = ops.init_database(
        require_dsn(loaded),
        wanted_places(loaded.values),
        take_over=take_over,
        claim=claim,
        connect_timeout_seconds=patience,
    )
    if claim:
        print_message("the lake belongs to this database from now on")
        for left in report.unbound:
            print_message(
                f"{left.table} is not the table that was registered ({left.reason}); nothing of it moves. "
                "Unregister it."
            )
    if rotate_logins:
        forget_password(loaded.values.dir, "gateway_password")
        roles = ops.rotate_logins(require_dsn(loaded), connect_timeout_seconds=patience)
        print_message(f"new passwords at the gateway for {', '.join(roles)}")
    if json:
        print_json(report)
    else:
        print_lines(
            [
                f"the catalog has version {report.catalog_version}",
                f"lakes are made in {report.warehouse}",
                f"Postgres looks for the gateway at {report.gateway}, where role {report.gateway_login} has a login",
            ]
        )


def settings(directory: DirOption = None, dsn: DsnOption = None, json: JsonOption = False) -> None:
    """Show every setting, its value and where it came from."""
    lines = render_settings(read_settings(dir=directory, dsn=dsn))
    if json:
        print_json({line.key: {"value": line.value, "origin": line.origin, "meaning": line.meaning} for line in lines})
    else:
        print_table(
            ["setting", "value", "from", "meaning"],
            ([line.key, line.value, line.origin, line.meaning] for line in lines),
        )


def doctor(directory: DirOption = None, dsn: DsnOption = None, json: JsonOption = False) -> None:
    """Check Java, jars, Postgres, privileges, gateway, warehouse and clock; exit 1 when one is red."""
    from thermocline.ops.doctor.checks import examine

    findings = examine(read_settings(dir=directory, dsn=dsn).values)
    if json:
        print_json({"healthy": all(f.verdict != "red" for f in findings), "findings": findings})
    else:
        print_table(
            ["check", "verdict", "seen", "what to do"], ([f.check, f.verdict, f.seen, f.fix or ""] for f in findings)
        )
    if any(finding.verdict == "red" for finding in findings):
        raise typer.Exit(1)
