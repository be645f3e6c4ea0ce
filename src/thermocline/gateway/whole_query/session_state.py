"""The settings and the transaction of a client session, as far as they decide what a statement means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from thermocline.gateway.sql.query.source_tables import Role

Engine = Literal["auto", "duckdb", "postgres"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """A session as it is now."""

    role: Role
    utc: bool
    date_style: str
    bytea_output: str
    extra_float_digits: int
    client_encoding: str
    standard_strings: bool
    isolation: str
    has_written: bool
    engine: str
    timeout_seconds: float
    server_encoding: str = "UTF8"
    nulls_are_equal: bool = False
    array_nulls: bool = True
    idle_seconds: float = 0
    prepared_text: str | None = None

    @property
    def prints_plainly(self) -> bool:
        """Whether the gateway's own text of every type is the session's."""
        return (
            self.utc
            and self.date_style.startswith("ISO")
            and self.bytea_output == "hex"
            and self.extra_float_digits >= 1
        )

    def why_not_here(self) -> str | None:
        """A reason that holds for every statement of the session as it is."""
        if self.client_encoding != "UTF8" or self.server_encoding != "UTF8" or not self.standard_strings:
            return "the session's encoding or strings are not plain"
        if self.nulls_are_equal:
            return "the session compares with NULL in a way of its own"
        if not self.array_nulls:
            return "the session reads NULL in an array as text"
        if self.has_written:
            return "the transaction has written"
        if self.isolation == "serializable":
            return "the transaction is serializable"
        return None
