"""What was observed of a stack at one moment: Postgres, catalog, gateway, foreign server, warehouses, workers, tables.

Values only. `ops/health` makes an observation, `core/health/health_conditions.py` judges it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLimits:
    """From when on something is late."""

    cycle_late_seconds: float
    corrections_late_seconds: float
    worker_silent_seconds: float = 30.0
    failing_seconds: float = 60.0
    stale_seconds: float = 60.0
    """An observation older than this says nothing of now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemSeen:
    """What does not work, and what to do about it, where the one who looked knows."""

    sentence: str
    fix: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WarehouseSeen:
    """A place of lake files, with the number of registered tables that have theirs there."""

    location: str
    profile: str | None
    tables: int
    exists: bool
    seen: str = ""
    problem: ProblemSeen | None = None
    free_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignServerSeen:
    """Postgres' way to the gateway: where the server leads, and what a login through it gave."""

    name: str
    exists: bool = True
    host: str = ""
    port: str = ""
    role: str = ""
    has_login: bool = False
    is_tried: bool = False
    problem: str | None = None
    """Why a login through it failed."""
    serves_another: bool = False
    is_no_gateway: bool = False
    wanted: tuple[str, str] | None = None
    """Host and port as the settings have them, where a person's command compares them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSeen:
    """A worker as it recorded itself."""

    name: str
    host: str
    pid: int
    started_at: datetime
    seen_at: datetime
    cycle_started_at: datetime | None
    cycle_finished_at: datetime | None
    cycle_seconds: float | None
    progress_at: datetime | None = None
    """When the op that it is in last staged a file or came to its next phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSeen:
    """A registered table: its cut-line, its last cycle, its corrections; `lake` is its current metadata file."""

    id: int
    table: str
    object_name: str
    t: int
    snapshot: int | None
    lake: str | None
    warehouse: str | None
    """The place of its storage profile; None is the place of the settings."""
    registered_at: datetime | None
    paused_since: datetime | None
    cycle_at: datetime | None
    cycle_said: str | None
    failing_since: datetime | None
    waiting_rows: int | None
    waiting_since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthObservation:
    """Everything that was observed; what could not be asked because Postgres is away is None or empty.

    `lakes` and `round_trips` tell, for each table that was tried, why its lake could not be read: from this process,
    and by Postgres through foreign server and gateway.
    """

    at: datetime
    limits: HealthLimits
    postgres: ProblemSeen | None = None
    postgres_version: str = ""
    catalog: ProblemSeen | None = None
    gateway_address: str = ""
    gateway: ProblemSeen | None = None
    server: ForeignServerSeen | None = None
    warehouses: tuple[WarehouseSeen, ...] = ()
    lakes: Mapping[str, ProblemSeen | None] = field(default_factory=dict)
    round_trips: Mapping[str, ProblemSeen | None] = field(default_factory=dict)
    workers: tuple[WorkerSeen, ...] = ()
    tables: tuple[TableSeen, ...] = ()
