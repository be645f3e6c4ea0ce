"""Where a database's lake and gateway are. Both belong to the database, whatever directory a command is run in.

The warehouse of tables without a storage profile is a row of the catalog; the gateway's address is in the options of
the foreign server, where Postgres itself reads it. Whoever comes first decides them. From then on a command without a
setting uses them, and one with another setting is refused, unless a person takes them over.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, replace
from itertools import zip_longest

import psycopg

from thermocline.catalog.migrate import check_version_current
from thermocline.catalog.profiles import read_default_warehouse, record_default_warehouse
from thermocline.errors import MissingPrivilege, PlacesDiffer, PostgresUnreachable
from thermocline.runtime.locations import local_path, location_of
from thermocline.runtime.pg import Connection, connect
from thermocline.runtime.settings import Settings, split_address, split_addresses
from thermocline.seam.foreign_server import point_server_at, read_server_address

_LOG = logging.getLogger("thermocline.places")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The warehouse's location, and `host:port,host:port,…` of the gateways; None: not decided yet."""

    warehouse: str | None
    gateway: str | None

    @property
    def shown_warehouse(self) -> str | None:
        """The warehouse as people write it: a local one as a path."""
        return render_warehouse(self.warehouse) if self.warehouse else None


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedPlaces:
    """What a command was told (`warehouse`, `gateway`), and what it proposes to a database that has none yet.

    `owns_gateway`: the command runs both the gateway and Postgres, so it may move the one for the other.
    """

    warehouse: str | None
    gateway: str | None
    first_warehouse: str
    first_gateway: str
    owns_gateway: bool = False


def wanted_places(settings: Settings) -> WantedPlaces:
    """What the settings say."""
    return WantedPlaces(
        warehouse=settings.given_warehouse,
        gateway=settings.given_gateway,
        first_warehouse=settings.warehouse_location,
        first_gateway=settings.gateway_addresses or settings.gateway_listen,
    )


def read_places(conn: Connection) -> Places:
    """What the database says."""
    address = read_server_address(conn)
    return Places(
        warehouse=read_default_warehouse(conn), gateway=_join_address(*address) if address is not None else None
    )


def read_places_of(dsn: str, *, connect_timeout_seconds: int = 5) -> Places:
    """What the database of this DSN says."""
    with connect(dsn, application_name="thermocline status", connect_timeout_seconds=connect_timeout_seconds) as conn:
        return read_places(conn)


def check_places(conn: Connection, settings: Settings) -> Places:
    """What the database says; refuses settings that say otherwise."""
    held = read_places(conn)
    _check_same(conn, held, wanted_places(settings))
    return held


def decide_places(conn: Connection, wanted: WantedPlaces, *, take_over: bool) -> Places:
    """What holds from now on: as the database says, else as was told, else as proposed. Writes nothing."""
    held = read_places(conn)
    if not take_over:
        _check_same(conn, held, wanted)
    moves_gateway = take_over or wanted.owns_gateway or held.gateway is None
    moves_warehouse = take_over or held.warehouse is None
    return Places(
        warehouse=(wanted.warehouse if moves_warehouse else None) or held.warehouse or wanted.first_warehouse,
        gateway=(wanted.gateway if moves_gateway else None) or held.gateway or wanted.first_gateway,
    )


def join_database(dsn: str, settings: Settings, *, take_over: bool, listens: str | None = None) -> None:
    """A process starts to work for a database: its settings must not say otherwise, unless it takes the places over.

    A gateway (`listens`) may listen elsewhere than where Postgres looks: there may be several, or another name leads to
    it. Only `take_over` points Postgres at it. Where Postgres is away, nothing is compared, because a process may start
    before it.
    """
    told = settings.gateway_addresses or (listens if take_over else None)
    try:
        conn = connect(
            dsn,
            application_name="thermocline places",
            connect_timeout_seconds=settings.connect_timeout_seconds,
        )
    except PostgresUnreachable:
        if take_over:
            raise
        return
    with conn:
        wanted = replace(wanted_places(settings), gateway=told)
        places = decide_places(conn, wanted, take_over=take_over)
        if take_over:
            _apply_taken(conn, wanted)
        elif listens is not None and places.gateway is not None and not _has_address(places.gateway, listens):
            _LOG.info("Postgres looks for gateways at %s; this one listens on %s", places.gateway, listens)


def _apply_taken(conn: Connection, wanted: WantedPlaces) -> None:
    check_version_current(conn)
    try:
        if wanted.warehouse is not None:
            record_default_warehouse(conn, wanted.warehouse)
        if wanted.gateway is not None:
            point_server_at(conn, *split_addresses(wanted.gateway))
    except psycopg.errors.InsufficientPrivilege as problem:
        raise MissingPrivilege(
            f"This role may not change the places of database {conn.info.dbname}: {problem.diag.message_primary}.",
            hint="Run `thermocline init --take-over` as the role that ran `thermocline init`.",
        ) from problem


def warehouse_of(conn: Connection, settings: Settings) -> str:
    """The warehouse of tables without a profile; refuses settings that say otherwise."""
    return check_places(conn, settings).warehouse or settings.warehouse_location


def render_warehouse(location: str) -> str:
    """The location as people write it: a local one as a path."""
    return str(local_path(location) or location)


def _check_same(conn: Connection, held: Places, wanted: WantedPlaces) -> None:
    differing = []
    if held.warehouse and wanted.warehouse and not _is_same_warehouse(held.warehouse, wanted.warehouse):
        differing.append(
            f"The warehouse of database {conn.info.dbname} is {render_warehouse(held.warehouse)}, "
            f"and this command was told {render_warehouse(location_of(wanted.warehouse))}."
        )
    if held.gateway and wanted.gateway and not wanted.owns_gateway and not _has_address(held.gateway, wanted.gateway):
        differing.append(
            f"Postgres reaches the gateway of database {conn.info.dbname} at {held.gateway}, "
            f"and this command was told {wanted.gateway}."
        )
    if differing:
        raise PlacesDiffer(" ".join(differing))


def _is_same_warehouse(one: str, other: str) -> bool:
    one, other = location_of(one), location_of(other)
    paths = [local_path(location) for location in (one, other)]
    if any(path is None for path in paths):
        return one.rstrip("/") == other.rstrip("/")
    return len({os.path.realpath(path) for path in paths if path is not None}) == 1


def _has_address(held: str, wanted: str) -> bool:
    """Whether Postgres uses the address, or these addresses in this order."""
    return _pairs(held) == _pairs(wanted) or ("," not in wanted and _pairs(wanted)[0] in _pairs(held))


def _pairs(text: str) -> list[tuple[str, int]]:
    return [split_address(address.strip()) for address in text.split(",")]


def _join_address(hosts: str, ports: str) -> str:
    names, numbers = hosts.split(","), (ports or "5432").split(",")
    pairs = zip_longest(names, numbers[: len(names)], fillvalue=numbers[-1])
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in pairs)
