"""One observation of a stack: Postgres and gateway at once, then warehouses and round trips, each with a time limit.

`HealthObserver` is kept by whoever observes again and again: it starts no second look where the last one still hangs,
and takes turns over the tables so that an observation costs the same with ten tables and with ten thousand. What was
seen of a table in an earlier turn stays until its next one.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import psycopg

from thermocline.core.health.health_observation import (
    ForeignServerSeen,
    HealthLimits,
    HealthObservation,
    ProblemSeen,
    TableSeen,
    WarehouseSeen,
)
from thermocline.errors import PostgresUnreachable, ThermoclineError
from thermocline.ops.health.bounded_look import BoundedLook
from thermocline.ops.health.database_look import (
    CatalogSeen,
    RoundTripsSeen,
    read_database,
    try_login,
    try_round_trips,
)
from thermocline.ops.health.warehouse_look import LakesSeen, Warehouse, read_warehouse, try_rights
from thermocline.runtime.locations import local_path
from thermocline.runtime.settings import Settings, split_address

_SSL_REQUEST = struct.pack("!ii", 8, 80877103)
_LOOK_SECONDS = 10.0
_LAKES_AT_ONCE, _ROUND_TRIPS_AT_ONCE = 50, 3


def read_limits(settings: Settings) -> HealthLimits:
    late = settings.corrections_late_seconds
    return HealthLimits(
        cycle_late_seconds=settings.cycle_late_seconds,
        corrections_late_seconds=max(300.0, 5 * settings.fold_interval_seconds) if late is None else late,
    )


class HealthObserver:
    """Observes one stack, again and again."""

    def __init__(self, settings: Settings, *, look_seconds: float = _LOOK_SECONDS) -> None:
        self._settings = settings
        self._seconds = look_seconds
        self._looks: dict[str, BoundedLook[Any]] = {}
        self._turn = 0
        self._lakes: dict[str, ProblemSeen | None] = {}
        self._round_trips: dict[str, ProblemSeen | None] = {}

    def observe(self, *, every_table: bool = False, only: str | None = None, rights: bool = False) -> HealthObservation:
        """Look at everything; of the lakes at those in turn, at `every_table`, or at `only` one; with `rights` also
        write to the warehouses."""
        settings = self._settings
        database, postgres = self._read_database()
        address = _gateway_address(settings, database.server)
        gateway = self._start(f"gateway {address}", partial(_why_no_gateway, settings, address))
        tables = database.tables
        lakes = _in_turn(tables, self._turn, len(tables) if every_table else _LAKES_AT_ONCE, only)
        trips = _in_turn(
            tables, self._turn, len(tables) if every_table else _ROUND_TRIPS_AT_ONCE, only, first=self._round_trips
        )
        self._turn += 1
        looks = [
            (place, self._start(f"warehouse {place.location}", partial(_look_at, place, lakes, rights=rights)))
            for place in _warehouses(settings, database)
        ]
        round_trips = self._start_round_trips(database.server, trips)
        deadline = time.monotonic() + self._seconds
        self._forget_others(tables)
        seen = tuple(self._finish_warehouse(place, look, deadline) for place, look in looks)
        server = self._finish_round_trips(round_trips, database.server, deadline)
        if server is not None and rights:
            server = self._compare_server(server)
        return HealthObservation(
            at=database.now,
            limits=read_limits(settings),
            postgres=postgres,
            postgres_version=database.version,
            catalog=database.catalog,
            gateway_address=address,
            gateway=self._finish_gateway(gateway, address, deadline),
            server=server,
            warehouses=seen,
            lakes=dict(self._lakes),
            round_trips=dict(self._round_trips),
            workers=database.workers,
            tables=tables,
        )

    def _start(self, name: str, look: Any) -> BoundedLook[Any]:
        bounded = self._looks.setdefault(name, BoundedLook(look))
        bounded.start(look)
        return bounded

    def _read_database(self) -> tuple[CatalogSeen, ProblemSeen | None]:
        nothing = CatalogSeen(now=datetime.now(UTC))
        if self._settings.dsn is None:
            fix = "Run `thermocline up`, or give --dsn or --dir."
            return nothing, ProblemSeen(sentence="no DSN, and no stack in the directory", fix=fix)
        look = self._start("postgres", partial(read_database, self._settings, self._seconds / 2))
        try:
            seen = look.finish(time.monotonic() + self._seconds)
        except ThermoclineError as problem:
            return nothing, ProblemSeen(sentence=str(problem), fix=problem.hint or None)
        except psycopg.Error as problem:
            return nothing, ProblemSeen(sentence=f"it did not answer: {_first_line(problem)}")
        if seen is None:
            fix = "See what keeps it busy: its log, pg_stat_activity, the network in between."
            return nothing, ProblemSeen(sentence=f"no answer for {look.silent_seconds:.0f} s", fix=fix)
        assert isinstance(seen, CatalogSeen)
        return seen, None

    def _start_round_trips(
        self, server: ForeignServerSeen | None, tables: tuple[TableSeen, ...]
    ) -> BoundedLook[Any] | None:
        if server is None or not server.exists or not server.has_login or not tables:
            return None
        return self._start("round trips", partial(try_round_trips, self._settings, server, tables, self._seconds / 2))

    def _finish_round_trips(
        self, look: BoundedLook[Any] | None, server: ForeignServerSeen | None, deadline: float
    ) -> ForeignServerSeen | None:
        if look is None or server is None:
            return server
        try:
            seen = look.finish(deadline)
        except PostgresUnreachable:
            return server
        except psycopg.Error as problem:
            return replace(server, is_tried=True, problem=_first_line(problem))
        if seen is None:
            return replace(server, is_tried=True, problem=f"no answer for {look.silent_seconds:.0f} s")
        assert isinstance(seen, RoundTripsSeen)
        self._round_trips |= seen.tables
        return seen.server

    def _compare_server(self, server: ForeignServerSeen) -> ForeignServerSeen:
        """For a person: also whether the server leads where the settings say, and to a gateway of this database."""
        given = self._settings.given_gateway is not None
        wanted = replace(server, wanted=self._settings.gateway_hosts_and_ports if given else None)
        leads_there = wanted.wanted in (None, (server.host, server.port))
        if not server.exists or not server.has_login or not leads_there or server.problem is not None:
            return wanted
        look = self._start("login", partial(try_login, self._settings, wanted, self._seconds / 2))
        seen = look.finish(time.monotonic() + self._seconds)
        if seen is None:
            return replace(wanted, problem=f"no answer for {look.silent_seconds:.0f} s")
        assert isinstance(seen, ForeignServerSeen)
        return seen

    def _finish_warehouse(self, place: Warehouse, look: BoundedLook[Any], deadline: float) -> WarehouseSeen:
        seen = look.finish(deadline)
        if seen is None:
            sentence = f"{place.location}: no answer for {look.silent_seconds:.0f} s"
            return place.seen(problem=ProblemSeen(sentence=sentence))
        assert isinstance(seen, LakesSeen)
        self._lakes |= seen.lakes
        return seen.warehouse

    def _finish_gateway(self, look: BoundedLook[Any], address: str, deadline: float) -> ProblemSeen | None:
        seen = look.finish(deadline)
        if seen is None:
            return ProblemSeen(sentence=f"{address}: no answer for {look.silent_seconds:.0f} s")
        assert isinstance(seen, tuple)
        problem: ProblemSeen | None = seen[0]
        return problem

    def _forget_others(self, tables: tuple[TableSeen, ...]) -> None:
        names = {table.table for table in tables}
        for held in (self._lakes, self._round_trips):
            for gone in held.keys() - names:
                del held[gone]


def _warehouses(settings: Settings, seen: CatalogSeen) -> list[Warehouse]:
    """The warehouse as given, else as the database says; and that of each profile."""
    own = tuple(table for table in seen.tables if table.warehouse is None)
    default = settings.given_warehouse or seen.default_warehouse or settings.warehouse_location
    places = [Warehouse(location=str(local_path(default) or default), profile=None, tables=own)]
    for profile in seen.profiles:
        tables = tuple(table for table in seen.tables if table.warehouse == profile.warehouse)
        places.append(Warehouse(location=profile.warehouse, profile=profile.name, tables=tables))
    return places


def _look_at(place: Warehouse, lakes: tuple[TableSeen, ...], *, rights: bool) -> LakesSeen:
    seen = read_warehouse(place, [table for table in lakes if table in place.tables])
    if not rights or seen.warehouse.problem is not None or not seen.warehouse.exists:
        return seen
    return replace(seen, warehouse=try_rights(place))


def _first_line(problem: psycopg.Error) -> str:
    return (problem.diag.message_primary or str(problem) or type(problem).__name__).strip().splitlines()[0]


def _in_turn(
    tables: tuple[TableSeen, ...],
    turn: int,
    at_once: int,
    only: str | None,
    first: Mapping[str, ProblemSeen | None] | None = None,
) -> tuple[TableSeen, ...]:
    """The tables of one turn; a round takes as many turns as are needed for all. One of those with a problem in `first`
    is always among them, another one each turn: a problem that is over does not stay for a whole round."""
    if only is not None:
        return tuple(table for table in tables if table.table == only)
    if len(tables) <= at_once:
        return tables
    start = turn * at_once % len(tables)
    taken = (*tables, *tables)[start : start + at_once]
    red = [table for table in tables if (first or {}).get(table.table) is not None and table not in taken]
    return (red[turn % len(red)], *taken) if red else taken


def _gateway_address(settings: Settings, server: ForeignServerSeen | None) -> str:
    """The gateway of the settings or of the stack; where neither names one, the first that Postgres uses."""
    is_built_in = settings.gateway_listen == Settings.model_fields["gateway_listen"].default
    if not is_built_in or settings.given_gateway is not None or server is None or not server.host:
        return settings.gateway_listen
    return f"{server.host.split(',')[0]}:{server.port.split(',')[0] or '5432'}"


def _why_no_gateway(settings: Settings, address: str) -> tuple[ProblemSeen | None]:
    """Ask for TLS, which every server of the Postgres protocol answers with one byte before any login."""
    host, port = split_address(address)
    try:
        with socket.create_connection((host, port), timeout=settings.connect_timeout_seconds) as link:
            link.settimeout(settings.connect_timeout_seconds)
            link.sendall(_SSL_REQUEST)
            answer = link.recv(1)
    except OSError as problem:
        return (
            ProblemSeen(
                sentence=f"{host}:{port} cannot be reached: {problem.strerror or problem}",
                fix="Start it (`thermocline gateway`, or `thermocline up` for everything), or correct gateway_listen.",
            ),
        )
    if answer in (b"N", b"S"):
        return (None,)
    fix = "Another program has that port: correct gateway_listen."
    return (ProblemSeen(sentence=f"{host}:{port} answers, and is no gateway", fix=fix),)
