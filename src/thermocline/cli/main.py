"""The program `thermocline`: collects the commands, and maps every error to a sentence and an exit code, here and
nowhere else.

0 done, or nothing to do · 1 failed, or a check is red · 2 the call is wrong · 3 refused · 4 outcome unknown · 124
waited too long
"""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from thermocline import __version__
from thermocline.cli import (
    advise,
    alter,
    database,
    explain,
    grants,
    lake_tables,
    maintain,
    pause,
    pins,
    processes,
    profiles,
    recover,
    register,
    show,
    stack,
    start,
    tables,
    tier_and_fold,
    truncate,
    verify,
)
from thermocline.cli.options import JsonOption, flag
from thermocline.cli.output import print_error, print_json, print_lines
from thermocline.errors import Interrupted, ThermoclineError, UsageError

EXIT_FAILED = 1

app = typer.Typer(
    name="thermocline",
    help="One table across Postgres and Apache Iceberg.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for module in (
    stack,
    database,
    advise,
    register,
    start,
    alter,
    tables,
    show,
    tier_and_fold,
    maintain,
    lake_tables,
    truncate,
    pause,
    pins,
    processes,
    profiles,
    explain,
    verify,
    recover,
    grants,
):
    module.add_commands(app)


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    debug: Annotated[bool, flag("--debug", "Show tracebacks.")] = False,
    version: Annotated[bool, flag("--version", "Print the version.")] = False,
    json: JsonOption = False,
) -> None:
    """One table across Postgres and Apache Iceberg: recent rows in Postgres, history in the lake."""
    if json and context.invoked_subcommand is not None:
        context.default_map = {context.invoked_subcommand: {"json": True}}
    if version and json:
        print_json({"version": __version__})
    elif version:
        print_lines([f"thermocline {__version__}"])
    elif context.invoked_subcommand is None:
        show_help(json)


@app.command("help")
def show_help(json: JsonOption = False) -> None:
    """List the commands."""
    if json:
        commands = [{"name": name, "help": sentence} for name, sentence in list_commands()]
        print_json({"version": __version__, "commands": commands})
    else:
        print_lines(render_tree())


def list_commands() -> list[tuple[str, str]]:
    """Every command with its sentence."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    shown = {name: command for name, command in group.commands.items() if not command.hidden}
    return [(name, command.get_short_help_str(140)) for name, command in shown.items()]


def render_tree() -> list[str]:
    commands = list_commands()
    width = max(len(name) for name, _ in commands)
    lines = [f"thermocline {__version__}: one table across Postgres and Apache Iceberg", ""]
    lines += [f"  {name:<{width}}  {sentence}" for name, sentence in commands]
    return [
        *lines,
        "",
        "Every command answers --help and takes --json; --debug shows tracebacks; --install-completion is for shells.",
    ]


def run(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and leave with its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in given
    sys.exit(_exit_code([argument for argument in given if argument != "--debug"], debug))


def _exit_code(arguments: list[str], debug: bool) -> int:
    try:
        outcome = typer.main.get_command(app).main(arguments, prog_name="thermocline", standalone_mode=False)
        return outcome if isinstance(outcome, int) else 0
    except typer.Exit as leaving:
        if leaving.exit_code != Interrupted.exit_code:  # so does Typer pass Ctrl-C on
            return leaving.exit_code
        problem: ThermoclineError = Interrupted()
    except BrokenPipeError:
        return EXIT_FAILED
    except (KeyboardInterrupt, typer.Abort):
        problem = Interrupted()
    except Exception as raised:
        problem = render_problem(raised)
        if debug and not isinstance(raised, TyperException):
            raise
    print_error(problem, json="--json" in arguments)
    return problem.exit_code


def render_problem(raised: Exception) -> ThermoclineError:
    """The error that a person or a script is told of, whatever was raised."""
    if isinstance(raised, ThermoclineError):
        return raised
    if isinstance(raised, TyperException):
        sentence = raised.format_message()
        refusal = UsageError(
            sentence if sentence.endswith((".", "?")) else f"{sentence}.",
            hint="`thermocline help` lists the commands, and each of them answers --help.",
        )
        refusal.exit_code = raised.exit_code
        return refusal
    if "psycopg" in sys.modules:  # else nothing can have raised an error of Postgres, and it is slow to load
        import psycopg

        from thermocline.runtime.pg import postgres_failed

        if isinstance(raised, psycopg.Error):
            return postgres_failed(raised)
    return ThermoclineError(
        f"An unexpected {type(raised).__name__}: {str(raised).strip() or 'no message'}.",
        hint="This is a defect of thermocline; run the command again with --debug and report what it shows.",
    )


if __name__ == "__main__":
    run()
