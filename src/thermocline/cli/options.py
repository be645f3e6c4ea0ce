"""The options that commands share, and the settings that a command line leads to."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from thermocline.cli.completion import complete_table
from thermocline.core.names import TableName, parse_plain_name, parse_table_name
from thermocline.runtime.file_io import use_fsync
from thermocline.runtime.log import configure_logging
from thermocline.runtime.object_store import store_from_settings, use_store
from thermocline.runtime.settings import Settings
from thermocline.runtime.settings_layers import LoadedSettings, load_settings, variable_name
from thermocline.stack.locate import require_dsn, resolve_settings


def option(
    flag: str,
    help: str,
    *,
    default: str | bool = True,
    metavar: str | None = None,
    complete: Callable[..., list[str]] | None = None,
) -> Any:
    """An option; `default` says in words what holds without it, where the value itself does not say it."""
    return typer.Option(flag, help=help, metavar=metavar, show_default=default, autocompletion=complete)


def flag(flag: str, help: str) -> Any:
    """An option without a value."""
    return typer.Option(flag, help=help, show_default="off")


def setting_option(
    key: str, flag: str, help: str = "", *, default: str = "", complete: Callable[..., list[str]] | None = None
) -> Any:
    """An option that overrides a setting, whose declaration gives its help, its variable and its default."""
    field = Settings.model_fields[key]
    meaning = field.description or ""
    built_in = "none" if field.default is None else str(field.default)
    return typer.Option(
        flag,
        help=help or f"{meaning[:1].upper()}{meaning[1:]}.",
        envvar=variable_name(key),
        show_envvar=True,
        show_default=default or built_in,
        callback=_drop_value_of_variable,
        autocompletion=complete,
    )


def _drop_value_of_variable(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
    """None where Typer took the value from the variable: the layers of the settings read it, and note its origin."""
    source = context.get_parameter_source(parameter.name or "")
    return None if source is not None and source.name == "ENVIRONMENT" else value


def table_argument(help: str) -> Any:
    """The argument that names a table; see `read_table_name`."""
    return typer.Argument(metavar="TABLE", help=help, show_default=False, autocompletion=complete_table)


def read_table_name(loaded: LoadedSettings, text: str) -> TableName:
    """The table that a person named, as Postgres resolves it."""
    from thermocline.catalog.table_names import resolve_table_name

    if parse_plain_name(text) is None:
        return parse_table_name(text)
    patience = loaded.values.connect_timeout_seconds
    return resolve_table_name(require_dsn(loaded), text, connect_timeout_seconds=patience)


DirOption = Annotated[Path | None, setting_option("dir", "--dir", "Directory of the stack.")]
DsnOption = Annotated[str | None, setting_option("dsn", "--dsn", "Postgres to use instead of the stack's own.")]
WarehouseOption = Annotated[
    str | None,
    setting_option("warehouse", "--warehouse", "Where the lake's files are made.", default="the database's own"),
]
TakeOverOption = Annotated[
    bool,
    flag("--take-over", "Change the database's warehouse and gateway address to what this command was told."),
]
JsonOption = Annotated[bool, flag("--json", "Print one JSON document on stdout.")]
DryRunOption = Annotated[bool, flag("--dry-run", "Print what would be done and do nothing.")]
LocalOption = Annotated[bool, flag("--local", "Run in this process, even when a worker is alive.")]
NoWaitOption = Annotated[bool, flag("--no-wait", "File the request with the worker and return.")]
TimeoutOption = Annotated[float, option("--timeout", "Longest wait for the worker, in seconds.")]
TableArgument = Annotated[
    str, table_argument("schema.table, or a table that the search_path finds; quoted: '\"Ev ents\"'")
]


def list_without_command(group: typer.Typer, list_command: Callable[[Path | None, str | None, bool], None]) -> None:
    """Make a group without a command run its list; options before a command are the defaults of that command."""

    @group.callback(invoke_without_command=True)
    def run_list(
        context: typer.Context, directory: DirOption = None, dsn: DsnOption = None, json: JsonOption = False
    ) -> None:
        if context.invoked_subcommand is None:
            list_command(directory, dsn, json)
            return
        given = {name: value for name, value in (("directory", directory), ("dsn", dsn), ("json", json)) if value}
        if given:
            context.default_map = {context.invoked_subcommand: given}


def read_settings(*, for_up: bool = False, **flags: Any) -> LoadedSettings:
    """All layers, then what the stack in DIR recorded; logging and the cache are set to match."""
    loaded = load_settings(flags)
    if not for_up:
        loaded = resolve_settings(loaded)
    if loaded.values.cache is not None:
        # Children and the artifact cache itself read the environment.
        os.environ["THERMOCLINE_CACHE"] = str(loaded.values.cache)
    use_store(store_from_settings(loaded.values, os.environ))
    use_fsync(loaded.values.fsync)
    configure_logging(loaded.values.log_format, loaded.values.log_level)
    return loaded
