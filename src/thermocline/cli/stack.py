"""up, down, status: a whole stack on this machine."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

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
from thermocline.cli.output import print_json, print_lines, print_message, print_table, render_problems
from thermocline.cli.progress import show_downloads
from thermocline.errors import ThermoclineError
from thermocline.runtime.launch import launch_command
from thermocline.stack.credentials import stack_dsn
from thermocline.stack.state import StackState, read_state

if TYPE_CHECKING:
    from thermocline.core.health.finding import Finding
    from thermocline.ops.admin.places import Places
    from thermocline.runtime.settings import Settings
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
    warehouse: WarehouseOption = None,
    take_over: TakeOverOption = False,
    with_demo: Annotated[
        bool,
        flag("--demo", "Create the demo table demo.events, tier it, and print what happened."),
    ] = False,
    detach: Annotated[bool, flag("--detach", "Return once the stack is up.")] = False,
    json: JsonOption = False,
) -> None:
    """Start Postgres (unless a DSN is given), gateway, worker and HTTP API; stay until Ctrl-C."""
    from thermocline.stack.demo import check_demo_allowed
    from thermocline.stack.lifecycle import StackStatus, read_status, run_stack, start_detached
    from thermocline.stack.prepare import process_environment

    loaded = read_settings(for_up=True, dir=directory, dsn=dsn, warehouse=warehouse)
    stack_dir = loaded.values.dir
    show_downloads(silent=json)
    if with_demo:
        check_demo_allowed(loaded, read_state(stack_dir))

    def on_ready(supervisor: Supervisor) -> None:
        _print_status(StackStatus(directory=supervisor.directory, state=supervisor.state, is_up=True), json)
        if with_demo:
            _run_demo(supervisor)
        if not supervisor.stopping:
            print_message("the stack is up; Ctrl-C stops it")

    if detach:
        given = [] if warehouse is None else ["--warehouse", warehouse]
        start_detached(loaded, given, take_over=take_over)
        _print_status(read_status(stack_dir), json)
    elif run_stack(loaded, report_progress=print_message, on_ready=on_ready, take_over=take_over):
        return
    else:
        print_message(f"the stack in {stack_dir} is up already")
        _print_status(read_status(stack_dir), json)
    if with_demo:
        raise typer.Exit(subprocess.run(_demo_command(), env=process_environment(stack_dir), check=False).returncode)


def down(directory: DirOption = None, json: JsonOption = False) -> None:
    """Stop the stack: every process of it, its supervisor alive or not."""
    from thermocline.stack.lifecycle import stop_stack

    stack_dir = read_settings(for_up=True, dir=directory).values.dir
    stopped = stop_stack(stack_dir)
    if json:
        print_json({"stopped": stopped})
    else:
        print_lines([f"stopped {', '.join(stopped)}" if stopped else "nothing was running"])


def status(directory: DirOption = None, dsn: DsnOption = None, json: JsonOption = False) -> None:
    """Show the stack's addresses and processes, and the database's warehouse and gateway; exit 1 when it is not
    up or a check is red.

    Without a stack in the directory, a DSN shows what its database has.
    """
    from thermocline.ops.admin.places import read_places_of
    from thermocline.stack.lifecycle import read_status

    settings = read_settings(for_up=True, dir=directory, dsn=dsn).values
    if settings.dsn is not None and read_state(settings.dir) is None:
        places = read_places_of(settings.dsn, connect_timeout_seconds=settings.connect_timeout_seconds)
        if json:
            print_json(
                {
                    "postgres": {"dsn": _without_password(settings.dsn)},
                    "gateway": {"address": places.gateway},
                    "warehouse": places.shown_warehouse,
                }
            )
        else:
            print_lines([f"postgres   {_without_password(settings.dsn)}", *_render_places(places)])
        return
    stack = read_status(settings.dir)
    problems = _read_problems(stack, read_settings(dir=directory).values)
    _print_status(stack, json, problems)
    if not stack.is_up or any(found.verdict == "red" for found in problems):
        raise typer.Exit(1)


def demo(directory: DirOption = None) -> None:
    """Create the demo table in a running stack, tier it, and print what happened."""
    from thermocline.stack.demo import run_demo

    run_demo(
        read_settings(dir=directory), print_line=lambda line: print_lines([str(line)]), report_progress=print_message
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSeen:
    """What the database itself says: what is paused, what is not started, and where its lake and gateway are."""

    paused: tuple[str, ...]
    not_started: tuple[str, ...]
    places: Places


def read_database(stack: StackStatus) -> DatabaseSeen:
    """Where Postgres cannot be asked, what the stack recorded."""
    import psycopg

    from thermocline.ops.admin.pause import list_paused
    from thermocline.ops.admin.places import Places, read_places_of
    from thermocline.ops.admin.start_stop import list_not_started

    if stack.is_up:
        try:
            dsn = stack_dsn(stack.directory, stack.state.postgres_dsn)
            resting = list_paused(dsn), list_not_started(dsn)
            return DatabaseSeen(paused=resting[0], not_started=resting[1], places=read_places_of(dsn))
        except (ThermoclineError, psycopg.Error) as problem:
            print_message(f"Postgres cannot be asked: {problem}")
    return DatabaseSeen(paused=(), not_started=(), places=Places(warehouse=stack.state.warehouse, gateway=None))


def _render_places(places: Places) -> list[str]:
    return [
        f"warehouse  {places.shown_warehouse or 'none yet'}",
        f"           Postgres looks for the gateway at {places.gateway or 'no address yet'}",
    ]


def _read_problems(stack: StackStatus, settings: Settings) -> tuple[Finding, ...]:
    """What is not good, of a stack that is up."""
    from thermocline.core.health.health_conditions import judge_health
    from thermocline.ops.health.observer import HealthObserver

    findings = judge_health(HealthObserver(settings).observe()) if stack.is_up else ()
    return tuple(found for found in findings if found.verdict != "ok")


def _print_status(stack: StackStatus, as_json: bool, problems: tuple[Finding, ...] = ()) -> None:
    seen = read_database(stack)
    if as_json:
        print_json(render_status(stack.state, seen) | {"problems": problems})
        return
    state = stack.state
    print_lines(
        [
            f"state      {state.phase}",
            f"postgres   {_without_password(state.postgres_dsn)}",
            f"gateway    {state.gateway_dsn}",
            *([f"           Postgres looks for it at {seen.places.gateway}"] if seen.places.gateway else []),
            f"metrics    {state.gateway_metrics_url}",
            f"api        {state.api_url}",
            f"warehouse  {seen.places.shown_warehouse}",
            *([f"paused     {', '.join(seen.paused)}"] if seen.paused else []),
            *([f"by hand    {', '.join(seen.not_started)}"] if seen.not_started else []),
            "",
        ]
    )
    print_table(
        ["process", "pid", "state", "restarts"], ([p.name, p.pid, p.state, p.restarts] for p in state.processes)
    )
    print_lines(render_problems(problems))


def render_status(state: StackState, seen: DatabaseSeen) -> dict[str, object]:
    """The document of `status --json`. The DSNs name a passfile, so they work as they are and hold no password."""
    return {
        "state": state.phase,
        "postgres": {"dsn": _without_password(state.postgres_dsn), "embedded": state.embedded},
        "gateway": {"dsn": state.gateway_dsn, "metrics": state.gateway_metrics_url, "address": seen.places.gateway},
        "api": {"url": state.api_url},
        "warehouse": seen.places.shown_warehouse,
        "paused": seen.paused,
        "not_started": seen.not_started,
        "supervisor": {"pid": state.supervisor.pid},
        "processes": [
            {"name": p.name, "pid": p.pid, "state": p.state, "restarts": p.restarts} for p in state.processes
        ],
    }


def _without_password(dsn: str) -> str:
    from thermocline.runtime.pg import without_password  # loads psycopg

    return without_password(dsn)


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
