"""Finds the Postgres, the gateway and the warehouse that a command is about: by a DSN, else by the stack in DIR."""

from __future__ import annotations

from pathlib import Path

from thermocline.errors import NoStack
from thermocline.runtime.settings_layers import BUILT_IN, LoadedSettings
from thermocline.stack.credentials import stack_dsn
from thermocline.stack.state import read_state


def resolve_settings(loaded: LoadedSettings) -> LoadedSettings:
    """The settings with the values that the stack in DIR recorded; a DSN that was given wins over the stack's, which is
    complete without libpq's variables."""
    state = read_state(loaded.values.dir)
    if state is None or loaded.values.dsn is not None:
        return loaded
    from thermocline.runtime.pg import forget_libpq_variables  # loads psycopg

    forget_libpq_variables()
    from_stack: dict[str, str | Path] = {"dsn": stack_dsn(loaded.values.dir, state.postgres_dsn)}
    if loaded.values.warehouse is None:
        from_stack["warehouse"] = state.warehouse
    if loaded.origins["gateway_listen"] == BUILT_IN:
        from_stack["gateway_listen"] = f"{state.gateway_host}:{state.gateway_port}"
    if loaded.origins["http_listen"] == BUILT_IN:
        from_stack["http_listen"] = f"{state.http_host}:{state.http_port}"
    if loaded.values.gateway_http_listen is None and state.gateway_http_port is not None:
        from_stack["gateway_http_listen"] = f"{state.gateway_http_host}:{state.gateway_http_port}"
    if loaded.values.gateway_tls_cert is None and state.gateway_cert and state.gateway_key:
        from_stack |= {"gateway_tls_cert": Path(state.gateway_cert), "gateway_tls_key": Path(state.gateway_key)}
    return loaded.with_values(f"stack {loaded.values.dir}", **from_stack)


def require_dsn(loaded: LoadedSettings) -> str:
    """The DSN to use; refuses where there is neither a DSN nor a stack."""
    if loaded.values.dsn is None:
        raise NoStack(f"No stack is in {loaded.values.dir}, and no DSN was given.")
    return loaded.values.dsn
