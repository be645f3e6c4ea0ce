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
    tables,
    tier_and_fold,
    truncate,
    verify,
)
from thermocline.cli.options import flag
from thermocline.cli.output import print_error, print_lines, print_message
from thermocline.errors import ThermoclineError, UsageError

EXIT_FAILED, EXIT_INTERRUPTED = 1, 130

app = typer.Typer(
    name="thermocline",
    help="One table across Postgres and Apache Iceberg.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for module in (
    stack,
    database,
    advise,
    register,
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
) -> None:
    """One table across Postgres and Apache Iceberg: recent rows in Postgres, history in the lake."""
    if version:
        print_lines([f"thermocline {__version__}"])
    elif context.invoked_subcommand is None:
        print_lines(render_tree())


@app.command("help")
def show_help() -> None:
    """List the commands."""
    print_lines(render_tree())


def render_tree() -> list[str]:
    """Every command with its sentence."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    shown = {name: command for name, command in group.commands.items() if not command.hidden}
    width = max(len(name) for name in shown)
    lines = [f"thermocline {__version__}: one table across Postgres and Apache Iceberg", ""]
    lines += [f"  {name:<{width}}  {command.get_short_help_str(140)}" for name, command in shown.items()]
    return [*lines, "", "Every command answers --help and takes --json; --debug shows tracebacks."]


def run(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and leave with its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in given
    sys.exit(_exit_code([argument for argument in given if argument != "--debug"], debug))


def _exit_code(arguments: list[str], debug: bool) -> int:
    import psycopg

    from thermocline.runtime.pg import postgres_failed

    try:
        outcome = typer.main.get_command(app).main(arguments, prog_name="thermocline", standalone_mode=False)
        return outcome if isinstance(outcome, int) else 0
    except typer.Exit as leaving:
        return leaving.exit_code
    except TyperException as problem:
        sentence = problem.format_message()
        print_error(
            UsageError(
                sentence if sentence.endswith((".", "?")) else f"{sentence}.",
                hint="`thermocline help` lists the commands, and each of them answers --help.",
            )
        )
        return problem.exit_code
    except (KeyboardInterrupt, typer.Abort):
        print_message("stopped by Ctrl-C")
        return EXIT_INTERRUPTED
    except ThermoclineError as problem:
        if debug:
            raise
        print_error(problem)
        return problem.exit_code
    except psycopg.Error as problem:
        if debug:
            raise
        print_error(postgres_failed(problem))
        return EXIT_FAILED
    except BrokenPipeError:
        return EXIT_FAILED
    except Exception as problem:
        if debug:
            raise
        print_error(
            ThermoclineError(
                f"An unexpected {type(problem).__name__}: {str(problem).strip() or 'no message'}.",
                hint="This is a defect of thermocline; run the command again with --debug and report what it shows.",
            )
        )
        return EXIT_FAILED


if __name__ == "__main__":
    run()
