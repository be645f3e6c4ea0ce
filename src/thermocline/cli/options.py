"""The options that every command shares, and the settings they lead to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from thermocline.runtime.file_io import use_fsync
from thermocline.runtime.log import configure_logging
from thermocline.runtime.object_store import store_from_settings, use_store
from thermocline.runtime.settings_layers import LoadedSettings, load_settings
from thermocline.stack.locate import resolve_settings

DirOption = Annotated[
    Path | None,
    typer.Option(
        "--dir", help="Directory of the stack. [env: THERMOCLINE_DIR] [default: .thermocline]", show_default=False
    ),
]
DsnOption = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        help="Postgres to use instead of the stack's own. [env: THERMOCLINE_DSN] [default: none]",
        show_default=False,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout. [default: off]", show_default=False)
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be done and do nothing. [default: off]", show_default=False)
]
LocalOption = Annotated[
    bool,
    typer.Option(
        "--local", help="Do it in this process, also when a worker is alive. [default: off]", show_default=False
    ),
]
NoWaitOption = Annotated[
    bool,
    typer.Option("--no-wait", help="File the request with the worker and return. [default: off]", show_default=False),
]
TimeoutOption = Annotated[
    float,
    typer.Option("--timeout", help="Longest wait for the worker, in seconds. [default: 3600]", show_default=False),
]
TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="schema.table, quoted where needed: 'public.\"Ev ents\"'")
]


def read_settings(*, for_up: bool = False, **flags: Any) -> LoadedSettings:
    """All layers, then what the stack in DIR knows; logging and the cache are set to match."""
    loaded = load_settings(flags)
    if not for_up:
        loaded = resolve_settings(loaded)
    if loaded.values.cache is not None:
        # Children and the artifact cache itself look at the environment.
        os.environ["THERMOCLINE_CACHE"] = str(loaded.values.cache)
    use_store(store_from_settings(loaded.values, os.environ))
    use_fsync(loaded.values.fsync)
    configure_logging(loaded.values.log_format, loaded.values.log_level)
    return loaded
