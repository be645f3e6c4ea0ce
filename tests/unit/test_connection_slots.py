"""Connections are counted from the moment they are accepted, in all and by address."""

from __future__ import annotations

import pytest

from thermocline.gateway.config import GatewayConfig
from thermocline.gateway.sessions.connection_slots import Admission, ConnectionSlots, address_group


def test_one_address_cannot_take_all_slots() -> None:
    slots = ConnectionSlots(10, 9)
    assert [slots.open("a") for _ in range(10)] == [*[Admission.SERVED] * 9, Admission.TOO_MANY_OF_ADDRESS]
    assert [slots.open("b") for _ in range(2)] == [Admission.SERVED, Admission.TOO_MANY]
    slots.close("a", Admission.SERVED)
    assert slots.open("b") is Admission.SERVED


def test_only_a_few_are_told_why_they_are_refused_and_the_rest_are_closed_at_once() -> None:
    slots = ConnectionSlots(1, 1)
    slots.open("a")
    refused = [slots.open("a") for _ in range(100)]
    assert 0 < refused.count(Admission.TOO_MANY_OF_ADDRESS) < 32
    assert slots.open("b") is Admission.TOO_MANY
    for admission in refused:
        slots.close("a", admission)
    assert slots.open("a") is Admission.TOO_MANY_OF_ADDRESS


@pytest.mark.parametrize(("max_connections", "of_address"), [(1, 1), (2, 2), (10, 9), (2000, 1800)])
def test_a_tenth_of_the_slots_is_left_for_other_addresses(max_connections: int, of_address: int) -> None:
    assert GatewayConfig(dsn="", max_connections=max_connections).connections_of_address == of_address
    assert GatewayConfig(dsn="", max_connections_per_address=5).connections_of_address == 5


def test_addresses_of_one_ipv6_network_are_one() -> None:
    assert address_group(("2001:db8::1", 1, 0, 0)) == address_group(("2001:db8::ffff:2", 2, 0, 0))
    assert address_group(("2001:db8::1", 1, 0, 0)) != address_group(("2001:db8:0:1::1", 1, 0, 0))
    assert address_group(("::ffff:10.0.0.7", 1, 0, 0)) == address_group(("10.0.0.7", 9)) == "10.0.0.7"
    assert address_group(("10.0.0.7", 1)) != address_group(("10.0.0.8", 1))
    assert address_group("") == address_group(None) == ""
