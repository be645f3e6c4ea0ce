"""Commands and stacks of one database from several directories: its lake and its gateway stay where they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from tests.stack.conftest import CommandLine

from thermocline.errors import OtherDsn
from thermocline.ops.admin.places import read_places
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.pg import with_database
from thermocline.runtime.postgres_server import PostgresServer, free_port
from thermocline.runtime.settings_layers import load_settings
from thermocline.stack.prepare import prepare_stack
from thermocline.stack.state import write_state

EVENTS = """
create table public.events (id bigint, ts timestamptz, v int, primary key (id, ts)) partition by range (ts);
create table public.e1 partition of public.events for values from ('2026-01-01 00:00+00') to ('2026-02-01 00:00+00');
"""


@pytest.fixture
def own(server: PostgresServer) -> Iterator[str]:
    """The DSN of an empty database of a Postgres that no stack made."""
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        conn.execute("create database places")
    yield with_database(server.dsn(), "places")
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        conn.execute("drop database places with (force)")


@pytest.mark.conforms("O-173")
def test_init_decides_status_shows_and_only_take_over_changes(
    thermocline: CommandLine, own: str, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    at_first, at_second = ("--dsn", own, "--dir", first), ("--dsn", own, "--dir", second)
    made = thermocline("init", *at_first)
    assert (made.code, f"lakes are made in {first}/warehouse" in made.out) == (0, True), made.err
    seen = thermocline("status", "--json", *at_second).document()
    assert (seen["warehouse"], seen["gateway"]["address"]) == (f"{first}/warehouse", "127.0.0.1:5439")
    assert f"warehouse  {first}/warehouse\n" in thermocline("status", *at_second).out
    with closing(connect(own, autocommit=True)) as conn:
        conn.execute(EVENTS)
    assert thermocline("register", "public.events", *at_second).code == 0
    assert len(list((first / "warehouse").rglob("*.json"))) == 1
    assert not second.exists()
    refused = thermocline("register", "public.events", *at_second, THERMOCLINE_WAREHOUSE="./mine")
    assert (refused.code, "error TC121" in refused.err, f"{first}/warehouse" in refused.err) == (3, True, True)
    moved = thermocline("init", *at_second, "--warehouse", second / "lake", "--take-over")
    assert (moved.code, f"lakes are made in {second}/lake" in moved.out) == (0, True), moved.err
    assert thermocline("init", *at_first, THERMOCLINE_GATEWAY_LISTEN="127.0.0.1:1").code == 3


@pytest.mark.conforms("O-173")
def test_a_second_stack_does_not_take_the_gateway_of_the_first(
    thermocline: CommandLine, own: str, stack_dir: Path, tmp_path: Path
) -> None:
    elsewhere = f"127.0.0.1:{free_port()}"
    assert thermocline("init", "--dsn", own, "--dir", tmp_path / "x", THERMOCLINE_GATEWAY_ADDRESSES="gw:5439").code == 0
    refused = thermocline(
        "up", "--detach", "--dir", stack_dir, THERMOCLINE_DSN=own, THERMOCLINE_GATEWAY_LISTEN=elsewhere
    )
    assert (refused.code, "error TC121" in refused.err, "gw:5439" in refused.err, elsewhere in refused.err) == (
        3,
        True,
        True,
        True,
    ), refused.err
    assert "hint: Leave the setting out" in refused.err
    assert not (stack_dir / "stack.json").exists()  # what was refused is not remembered
    with closing(connect(own)) as conn:
        assert read_places(conn).gateway == "gw:5439"
    taken = thermocline("up", "--detach", "--take-over", "--dir", stack_dir, "--json", THERMOCLINE_DSN=own)
    assert taken.code == 0, taken.err
    seen = taken.document()
    assert f"port={seen['gateway']['address'].partition(':')[2]} " in seen["gateway"]["dsn"]
    assert seen["warehouse"] == str(tmp_path / "x" / "warehouse")


@pytest.mark.conforms("O-173")
def test_up_remembers_its_dsn_and_refuses_another_one(
    thermocline: CommandLine, own: str, stack_dir: Path, server: PostgresServer
) -> None:
    started = thermocline("up", "--detach", "--dir", stack_dir, "--json", THERMOCLINE_DSN=own)
    assert started.code == 0, started.err
    running = thermocline("up", "--dir", stack_dir, "--dsn", server.dsn("postgres"))
    assert (running.code, "error TC122" in running.err) == (3, True)
    assert thermocline("down", "--dir", stack_dir).code == 0
    other = thermocline("up", "--dir", stack_dir, "--dsn", server.dsn("postgres"))
    assert (other.code, "error TC122" in other.err) == (3, True)
    assert "dbname=places" in other.err
    assert "dbname=postgres" in other.err
    assert server.password not in other.err
    again = thermocline("up", "--detach", "--dir", stack_dir, "--json")
    assert again.code == 0, again.err
    assert {**again.document(), **_changing()} == {**started.document(), **_changing()}
    refused = thermocline("up", "--demo", "--dir", stack_dir)
    assert (refused.code, "error TC123" in refused.err) == (3, True)


def test_a_host_name_with_the_address_of_another_server_is_another_postgres(
    stack_dir: Path, own: str, server: PostgresServer
) -> None:
    stack_dir.mkdir()
    dsn = psycopg.conninfo.make_conninfo(own, host="localhost")
    write_state(stack_dir, prepare_stack(load_settings({"dir": stack_dir, "dsn": dsn})))
    prepare_stack(load_settings({"dir": stack_dir, "dsn": dsn}))
    elsewhere = psycopg.conninfo.make_conninfo(dsn, hostaddr="127.0.0.1")
    with pytest.raises(OtherDsn):
        prepare_stack(load_settings({"dir": stack_dir, "dsn": elsewhere}))
    moved = prepare_stack(load_settings({"dir": stack_dir, "dsn": elsewhere}), take_over=True)
    write_state(stack_dir, moved)
    assert psycopg.conninfo.conninfo_to_dict(moved.postgres_dsn)["hostaddr"] == "127.0.0.1"
    with pytest.raises(OtherDsn):
        prepare_stack(load_settings({"dir": stack_dir, "dsn": dsn}))


def _changing() -> dict[str, None]:
    """What differs between two starts of one stack."""
    return {"processes": None, "supervisor": None}


@pytest.mark.conforms("O-173")
def test_a_stack_with_a_postgres_of_its_own_refuses_a_dsn(
    thermocline: CommandLine, stack_dir: Path, server: PostgresServer
) -> None:
    stack_dir.mkdir()
    state = {
        "format": 1,
        "phase": "down",
        "postgres_port": free_port(),
        "gateway_host": "127.0.0.1",
        "gateway_port": free_port(),
        "gateway_dsn": "",
        "http_host": "127.0.0.1",
        "http_port": free_port(),
        "warehouse": str(stack_dir / "warehouse"),
        "supervisor": {"name": "supervisor"},
        "processes": [],
    }
    dsn = f"host=127.0.0.1 port={state['postgres_port']} user=postgres dbname=thermocline"
    (stack_dir / "stack.json").write_text(json.dumps({**state, "postgres_dsn": dsn}))
    refused = thermocline("up", "--dir", stack_dir, "--dsn", server.dsn())
    assert (refused.code, "error TC122" in refused.err, "has a Postgres of its own" in refused.err) == (3, True, True)
    demo = thermocline("up", "--demo", "--dir", stack_dir.parent / "other", "--dsn", server.dsn())
    assert (demo.code, "error TC123" in demo.err) == (3, True)
