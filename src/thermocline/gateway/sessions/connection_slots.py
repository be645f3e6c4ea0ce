"""Which client connections are served: counted from the moment they are accepted, in all and by address.

Pure: no socket and no clock. Beyond the limits a few connections are still read up to their startup message, so that a
client is told why it is refused and a request to cancel a statement arrives; the rest are closed at once.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from enum import Enum, auto

_RESERVE = 32
_RESERVE_OF_ADDRESS = 8


class Admission(Enum):
    """What becomes of a connection."""

    SERVED = auto()
    TOO_MANY = auto()
    TOO_MANY_OF_ADDRESS = auto()
    CLOSED = auto()


REFUSALS = {
    Admission.TOO_MANY: "too many connections to the gateway",
    Admission.TOO_MANY_OF_ADDRESS: "too many connections to the gateway from this address",
}


class ConnectionSlots:
    """The connections that are open now."""

    def __init__(self, max_connections: int, max_of_address: int) -> None:
        self._max_connections = max_connections
        self._max_of_address = max_of_address
        self._served: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()

    def open(self, address: str) -> Admission:
        """Count a connection, whether or not it has sent anything; every one is given back by `close`."""
        if self._served.total() < self._max_connections and self._served[address] < self._max_of_address:
            self._served[address] += 1
            return Admission.SERVED
        if self._refused.total() >= _RESERVE or self._refused[address] >= _RESERVE_OF_ADDRESS:
            return Admission.CLOSED
        self._refused[address] += 1
        is_address = self._served[address] >= self._max_of_address
        return Admission.TOO_MANY_OF_ADDRESS if is_address else Admission.TOO_MANY

    def close(self, address: str, admission: Admission) -> None:
        if admission is Admission.CLOSED:
            return
        counted = self._served if admission is Admission.SERVED else self._refused
        counted[address] -= 1
        if not counted[address]:
            del counted[address]


def address_group(peer: object) -> str:
    """The client's address; of IPv6 its /64 network, all of which belongs to one host."""
    host = str(peer[0]) if isinstance(peer, tuple) and peer else ""
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))
