"""The settings and the transaction of a client session, as far as they decide what a statement means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from thermocline.gateway.analysis.canonical_statement import ReadingSettings
from thermocline.gateway.sql.query.source_tables import Role

Engine = Literal["auto", "duckdb", "postgres"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """The current state of a session."""

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
    time_zone: str = "UTC"
    interval_style: str = "postgres"
    is_read_only: bool = False
    temporary_schema: str | None = None
    has_temporary_objects: bool = False
    xid: str | None = None
    holds_locks: bool = False

    @property
    def path(self) -> tuple[str, ...]:
        """The schemas of the search path, in which a temporary schema without objects does not count."""
        if self.has_temporary_objects:
            return self.role.path
        return tuple(name for name in self.role.path if name != self.temporary_schema)

    @property
    def reading(self) -> ReadingSettings:
        """The settings under which Postgres reads a text of this session."""
        return ReadingSettings(
            role=self.role.name,
            path=self.path,
            time_zone=self.time_zone,
            date_style=self.date_style,
            interval_style=self.interval_style,
            has_standard_strings=self.standard_strings,
            nulls_are_equal=self.nulls_are_equal,
            array_nulls=self.array_nulls,
        )

    @property
    def prints_plainly(self) -> bool:
        """Whether values printed by the gateway equal those printed under the session's settings."""
        return (
            self.utc
            and self.date_style.startswith("ISO")
            and self.bytea_output == "hex"
            and self.extra_float_digits >= 1
        )

    def why_not_here(self) -> str | None:
        """Why Postgres has to run every statement of the session in its current state, or `None`."""
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
