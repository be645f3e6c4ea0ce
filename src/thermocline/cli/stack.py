"""up, down, status: a whole stack on this machine."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Annotated

import psycopg
import typer

from thermocline.cli.options import DirOption, DsnOption, JsonOption, flag, read_settings, setting_option
from thermocline.cli.output import print_json, print_lines, print_message, print_table
from thermocline.errors import ThermoclineError
from thermocline.runtime.launch import launch_command
from thermocline.stack.state import StackState

if TYPE_CHECKING:
    from thermocline.stack.lifecycle import StackStatus
    from thermocline.stack.supervisor import Supervisor


def add_commands(app: typer.Typer) -> None:
    app.command("up")(up)
    app.command("down")(down)
    app.command("status")(status)
    app.command("demo", hidden=True)(demo)


def up(
    directory: DirOption = None,
    dsn: DsnOption = None,
    warehouse: Annotated[
        str | None,
        setting_option("warehouse", "--warehouse", "Directory of the lake's files.", default="DIR/warehouse"),
    ] = None,
    with_demo: Annotated[
        bool,
        flag("--demo", "Create a demo table, tier it, and print what happened."),
    ] = False,
    detach: Annotated[bool, flag("--detach", "Return once the stack is up.")] = False,
    json: JsonOption = False,
) -> None:
    """Start Postgres (unless a DSN is given), gateway, worker and HTTP API; stay until Ctrl-C."""
    from thermocline.stack.lifecycle import StackStatus, read_status, run_stack, start_detached
    from thermocline.stack.prepare import process_environment

    loaded = read_settings(for_up=True, dir=directory, dsn=dsn, warehouse=warehouse)
    home = loaded.values.dir

    def on_ready(supervisor: Supervisor) -> None:
        _print_status(StackStatus(state=supervisor.state, is_up=True), json)
        if with_demo:
            _run_demo(supervisor)
        if not supervisor.stopping:
            print_message("the stack is up; Ctrl-C stops it")

    if detach:
        given = [] if warehouse is None else ["--warehouse", warehouse]
        start_detached(loaded, given)
        _print_status(read_status(home), json)
        if with_demo:
            raise typer.Exit(subprocess.run(_demo_command(), env=process_environment(home), check=False).returncode)
    elif not run_stack(loaded, report_progress=print_message, on_ready=on_ready):
        print_message(f"the stack in {home} is up already")
        _print_status(read_status(home), json)


def down(directory: DirOption = None, json: JsonOption = False) -> None:
    """Stop the stack: every process of it, its supervisor alive or not."""
    from thermocline.stack.lifecycle import stop_stack

    home = read_settings(for_up=True, dir=directory).values.dir
    stopped = stop_stack(home)
    if json:
        print_json({"stopped": stopped})
    else:
        print_lines([f"stopped {', '.join(stopped)}" if stopped else "nothing was running"])


def status(directory: DirOption = None, json: JsonOption = False) -> None:
    """Show the stack's addresses and processes; exit 1 when it is not up."""
    from thermocline.stack.lifecycle import read_status

    stack = read_status(read_settings(for_up=True, dir=directory).values.dir)
    _print_status(stack, json, paused=_read_paused(stack))
    if not stack.is_up:
        raise typer.Exit(1)


def demo(directory: DirOption = None) -> None:
    """Create the demo table in a running stack, tier it, and print what happened."""
    from thermocline.stack.demo import run_demo

    run_demo(read_settings(dir=directory), print_line=lambda line: print_lines([line]), report_progress=print_message)


def _read_paused(stack: StackStatus) -> tuple[str, ...]:
    """What is paused, where Postgres can be asked; a stack's status is told without it, too."""
    from thermocline.ops.admin.pause import list_paused

    try:
        return list_paused(stack.state.postgres_dsn) if stack.is_up else ()
    except (ThermoclineError, psycopg.Error):
        return ()


def _print_status(stack: StackStatus, as_json: bool, paused: tuple[str, ...] = ()) -> None:
    if as_json:
        print_json(render_status(stack.state) | {"paused": paused})
        return
    state = stack.state
    print_lines(
        [
            f"state      {state.phase}",
            f"postgres   {state.postgres_dsn}",
            f"gateway    {state.gateway_dsn}",
            f"metrics    {state.gateway_metrics_url}",
            f"api        {state.api_url}",
            f"warehouse  {state.warehouse}",
            *([f"paused     {', '.join(paused)}"] if paused else []),
            "",
        ]
    )
    print_table(
        ["process", "pid", "state", "restarts"], ([p.name, p.pid, p.state, p.restarts] for p in state.processes)
    )


def render_status(state: StackState) -> dict[str, object]:
    """The document of `status --json`. The DSNs name a passfile, so they work as they are and hold no password."""
    return {
        "state": state.phase,
        "postgres": {"dsn": state.postgres_dsn, "embedded": state.embedded},
        "gateway": {"dsn": state.gateway_dsn, "metrics": state.gateway_metrics_url},
        "api": {"url": state.api_url},
        "warehouse": state.warehouse,
        "supervisor": {"pid": state.supervisor.pid},
        "processes": [
            {"name": p.name, "pid": p.pid, "state": p.state, "restarts": p.restarts} for p in state.processes
        ],
    }


def _demo_command() -> list[str]:
    return [sys.executable, "-m", "thermocline", "demo"]


def _run_demo(supervisor: Supervisor) -> None:
    """Run the demo in its own process while the supervisor goes on checking the others."""
    from thermocline.stack.prepare import process_environment
    from thermocline.stack.supervisor import POLL_SECONDS

    process = subprocess.Popen(
        launch_command(_demo_command(), die_signal=signal.SIGTERM),
        env=process_environment(supervisor.directory),
        start_new_session=True,
    )
    while process.poll() is None:
        supervisor.check_children()
        if supervisor.stopping:
            process.terminate()
            process.wait()
        time.sleep(POLL_SECONDS)
    if process.returncode and not supervisor.stopping:
        print_message(f"the demo ended with exit status {process.returncode}; the stack stays up")
