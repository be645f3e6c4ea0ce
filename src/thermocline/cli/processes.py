"""worker, gateway, serve: the processes of a stack, each a command of its own."""

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
    setting_option,
)
from thermocline.stack.locate import require_dsn


def add_commands(app: typer.Typer) -> None:
    app.command("worker")(worker)
    app.command("gateway")(gateway)
    app.command("serve")(serve)


def worker(
    directory: DirOption = None,
    dsn: DsnOption = None,
    warehouse: WarehouseOption = None,
    take_over: TakeOverOption = False,
    once: Annotated[bool, flag("--once", "Run one cycle for every table and leave.")] = False,
    json: JsonOption = False,
) -> None:
    """Run the worker: moves partitions, resolves what was left unfinished."""
    from thermocline.ops.admin.places import join_database
    from thermocline.worker.loop import run_worker

    loaded = read_settings(dir=directory, dsn=dsn, warehouse=warehouse, log_format="json" if json else None)
    join_database(require_dsn(loaded), loaded.values, take_over=take_over)
    run_worker(loaded.values, once=once)


def gateway(
    directory: DirOption = None,
    dsn: DsnOption = None,
    listen: Annotated[
        str | None,
        setting_option("gateway_listen", "--listen"),
    ] = None,
    take_over: TakeOverOption = False,
    json: JsonOption = False,
) -> None:
    """Serve lake reads over the Postgres protocol."""
    from thermocline.gateway.server import run_gateway
    from thermocline.ops.admin.places import join_database

    loaded = read_settings(dir=directory, dsn=dsn, gateway_listen=listen, log_format="json" if json else None)
    join_database(require_dsn(loaded), loaded.values, take_over=take_over, listens=loaded.values.gateway_listen)
    run_gateway(loaded.values)


def serve(
    directory: DirOption = None,
    dsn: DsnOption = None,
    listen: Annotated[
        str | None,
        setting_option("http_listen", "--listen"),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Serve /healthz, /readyz and /metrics over HTTP."""
    from thermocline.api.http_server import run_serve

    loaded = read_settings(dir=directory, dsn=dsn, http_listen=listen, log_format="json" if json else None)
    require_dsn(loaded)
    run_serve(loaded.values)
