"""tier, fold: move partitions and corrections into the lake now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from thermocline.cli.options import (
    DirOption,
    DryRunOption,
    DsnOption,
    JsonOption,
    LocalOption,
    NoWaitOption,
    TableArgument,
    TimeoutOption,
    option,
    read_settings,
    read_table_name,
)
from thermocline.cli.output import print_message, print_report
from thermocline.cli.preview import print_preview
from thermocline.cli.progress import show_progress
from thermocline.errors import UsageError
from thermocline.stack.locate import require_dsn

if TYPE_CHECKING:
    from thermocline.ops.requests.submit import Verb
    from thermocline.runtime.settings_layers import LoadedSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a verb runs: planned only, in this process or by the worker, waited for or not."""

    dry_run: bool
    local: bool
    wait: bool
    timeout_seconds: float
    json: bool


def add_commands(app: typer.Typer) -> None:
    app.command("tier")(tier)
    app.command("fold")(fold)


def tier(
    table: TableArgument,
    directory: DirOption = None,
    dsn: DsnOption = None,
    dry_run: DryRunOption = False,
    local: LocalOption = False,
    no_wait: NoWaitOption = False,
    timeout_seconds: TimeoutOption = 3600,
    accepted: Annotated[
        str | None,
        option(
            "--accept-jump",
            "Accept the jump of T or R to this value, which `show` names.",
            default="jumps wait",
            metavar="VALUE",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Move every partition behind the lag to the lake, now; works whether the table is started or not."""
    loaded = read_settings(dir=directory, dsn=dsn)
    if accepted is not None:
        from thermocline.ops.tier.jumps import accept_jump

        if dry_run:
            raise UsageError("--accept-jump changes the table, and --dry-run changes nothing: give one of them.")
        print_message(accept_jump(require_dsn(loaded), read_table_name(loaded, table), accepted))
    run = RunOptions(dry_run=dry_run, local=local, wait=not no_wait, timeout_seconds=timeout_seconds, json=json)
    _run_verb("tier", table, loaded, run)


def fold(
    table: TableArgument,
    directory: DirOption = None,
    dsn: DsnOption = None,
    dry_run: DryRunOption = False,
    local: LocalOption = False,
    no_wait: NoWaitOption = False,
    timeout_seconds: TimeoutOption = 3600,
    json: JsonOption = False,
) -> None:
    """Move every pending correction from the delta into the lake, now."""
    run = RunOptions(dry_run=dry_run, local=local, wait=not no_wait, timeout_seconds=timeout_seconds, json=json)
    _run_verb("fold", table, read_settings(dir=directory, dsn=dsn), run)


def _run_verb(verb: Verb, table: str, loaded: LoadedSettings, run: RunOptions) -> None:
    name, dsn = read_table_name(loaded, table), require_dsn(loaded)
    if run.dry_run:
        from thermocline.ops.requests.execute import execute_request, render_report
        from thermocline.ops.requests.lazy_spark import lazy_spark_session

        source = lazy_spark_session(dsn, loaded.values)
        planned = execute_request(verb, dsn, name, settings=loaded.values, spark=source, dry_run=True)
        preview = getattr(planned, "preview", None)
        if preview is not None and not run.json:
            print_preview(preview)
        report = render_report(planned)
    else:
        from thermocline.ops.requests.submit import submit_request

        with show_progress(silent=run.json) as report_progress:
            report = submit_request(
                verb,
                dsn,
                name,
                settings=loaded.values,
                report_progress=report_progress,
                local=run.local,
                wait=run.wait,
                timeout_seconds=run.timeout_seconds,
            )
    print_report(report, json=run.json)
