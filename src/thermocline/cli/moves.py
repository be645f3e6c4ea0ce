"""tier, fold: rows and corrections into the lake, now."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

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
    read_settings,
)
from thermocline.cli.output import print_report, tell
from thermocline.core.names import parse_table_name
from thermocline.errors import UsageError
from thermocline.stack.locate import require_dsn

if TYPE_CHECKING:
    from thermocline.ops.requests.submit import Verb
    from thermocline.runtime.settings_layers import LoadedSettings


_HELP: dict[Verb, str] = {
    "tier": "Move every partition behind the lag to the lake, now.",
    "fold": "Move every correction that waits in the delta into the lake, now.",
}


def add_commands(app: typer.Typer) -> None:
    app.command("tier", help=_HELP["tier"])(_tier)
    app.command("fold", help=_HELP["fold"])(_command("fold"))


def _tier(
    table: TableArgument,
    directory: DirOption = None,
    dsn: DsnOption = None,
    dry_run: DryRunOption = False,
    local: LocalOption = False,
    no_wait: NoWaitOption = False,
    timeout_seconds: TimeoutOption = 3600,
    accepted: Annotated[
        str | None,
        typer.Option(
            "--accept-jump",
            metavar="PLACE",
            help="Let the line that waits to go to this place go there, as `show` says it. [default: it waits]",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    loaded = read_settings(dir=directory, dsn=dsn)
    if accepted is not None:
        from thermocline.ops.tier.jumps import accept_jump

        if dry_run:
            raise UsageError(
                "--accept-jump gives the operator's word, and --dry-run changes nothing: give one of them."
            )
        tell(accept_jump(require_dsn(loaded), parse_table_name(table), accepted))
    _move(
        "tier",
        table,
        loaded,
        dry_run=dry_run,
        json=json,
        local=local,
        wait=not no_wait,
        timeout_seconds=timeout_seconds,
    )


def _command(verb: Verb) -> Callable[..., None]:
    def move(
        table: TableArgument,
        directory: DirOption = None,
        dsn: DsnOption = None,
        dry_run: DryRunOption = False,
        local: LocalOption = False,
        no_wait: NoWaitOption = False,
        timeout_seconds: TimeoutOption = 3600,
        json: JsonOption = False,
    ) -> None:
        loaded = read_settings(dir=directory, dsn=dsn)
        _move(
            verb,
            table,
            loaded,
            dry_run=dry_run,
            json=json,
            local=local,
            wait=not no_wait,
            timeout_seconds=timeout_seconds,
        )

    return move


def _move(verb: Verb, table: str, loaded: LoadedSettings, *, dry_run: bool, json: bool, **asking: Any) -> None:
    name, dsn = parse_table_name(table), require_dsn(loaded)
    if dry_run:
        from thermocline.ops.requests.execute import execute_request, render_report
        from thermocline.ops.requests.lazy_spark import lazy_spark_session

        source = lazy_spark_session(dsn, loaded.values)
        report = render_report(execute_request(verb, dsn, name, settings=loaded.values, spark=source, dry_run=True))
    else:
        from thermocline.ops.requests.submit import submit_request

        talk = tell if not json else lambda _line: None
        report = submit_request(verb, dsn, name, settings=loaded.values, talk=talk, **asking)
    print_report(report, json=json)
