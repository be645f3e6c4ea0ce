"""What a shell completes: names from the catalog and from declarations. A shell that asks waits for the answer, so a
Postgres that does not answer within a second, or any refusal, completes nothing and says nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from thermocline.errors import ThermoclineError

if TYPE_CHECKING:
    from collections.abc import Iterable

_CONNECT_SECONDS = 1
# As regclass the name is alone where the search_path finds the table. It is the login's own path, so that everything
# else is qualified, and what Postgres would compare is sorted and told apart here.
_TABLES = (
    "select pg_catalog.format('%I.%I', schema_name, table_name) from thermocline.tables"
    " union all select heap_oid::pg_catalog.regclass::pg_catalog.text from thermocline.tables"
)
_PROFILES = "select name from thermocline.storage_profiles"


def complete_table(context: typer.Context, incomplete: str) -> list[str]:
    """Registered tables by their qualified names, and by the name alone where the search_path finds them."""
    return _starting(_read_names(context, _TABLES), incomplete)


def complete_profile(context: typer.Context, incomplete: str) -> list[str]:
    return _starting(_read_names(context, _PROFILES), incomplete)


def complete_preset(incomplete: str) -> list[str]:
    from thermocline.core.policy.keys import PRESETS

    return _starting(PRESETS, incomplete)


def complete_mode(incomplete: str) -> list[str]:
    from thermocline.core.modes.registration_options import OPTIONS

    return _starting(OPTIONS, incomplete)


def complete_engine(incomplete: str) -> list[str]:
    from thermocline.runtime.settings import MAINTENANCE_ENGINES

    return _starting(MAINTENANCE_ENGINES, incomplete)


def complete_operations(incomplete: str) -> list[str]:
    """The last operation of a list that is being typed."""
    from thermocline.core.policy.operations import OPERATIONS

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _starting(OPERATIONS, last)]


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _read_names(context: typer.Context, query: str) -> list[str]:
    import psycopg

    from thermocline.runtime.pg import connect_as_typed
    from thermocline.runtime.settings_layers import load_settings
    from thermocline.stack.locate import resolve_settings

    given = {key: context.params.get(name) for key, name in (("dir", "directory"), ("dsn", "dsn"))}
    try:
        dsn = resolve_settings(load_settings({key: _path(key, value) for key, value in given.items()})).values.dsn
        if dsn is None:
            return []
        with connect_as_typed(
            dsn, autocommit=True, application_name="thermocline completion", connect_timeout_seconds=_CONNECT_SECONDS
        ) as conn:
            conn.execute("set statement_timeout = '1s'")
            return sorted({str(row[0]) for row in conn.execute(query)})
    except (ThermoclineError, psycopg.Error):
        return []


def _path(key: str, value: object) -> object:
    return Path(str(value)) if key == "dir" and value is not None else value
