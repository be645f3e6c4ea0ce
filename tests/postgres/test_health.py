"""A stack that runs and does not work says so: `/readyz`, `/metrics`, `doctor` and `show`, by one declaration."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from prometheus_client.parser import text_string_to_metric_families
from tests.postgres.conftest import Shop
from tests.postgres.events_table import EVENTS

from thermocline.api.app import make_app
from thermocline.api.health_watch import HealthWatch
from thermocline.catalog import requests, tables
from thermocline.catalog.health import workers
from thermocline.catalog.health.waiting_corrections import Waiting, note_waiting
from thermocline.core.health.health_conditions import judge_health
from thermocline.core.names import parse_table_name
from thermocline.gateway.config import GatewayConfig
from thermocline.gateway.server import GatewayServer
from thermocline.ops.admin.init_database import init_database
from thermocline.ops.admin.places import wanted_places
from thermocline.ops.doctor.checks import examine
from thermocline.ops.fold import note_fold_work
from thermocline.ops.health.observer import HealthObserver
from thermocline.runtime.pg import Connection
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.postgres_server import free_port
from thermocline.runtime.settings import split_address

WAIT_SECONDS = 60.0


@pytest.fixture
def registered(shop: Shop) -> Shop:
    """A registered table in a database as `init` leaves it, and a worker that just finished a cycle."""
    init_database(shop.dsn, wanted_places(shop.settings))
    shop.settings = shop.settings.model_copy(update={"dsn": shop.dsn})
    shop.run(*EVENTS)
    shop.register()
    requests.beat(shop.conn, "worker-1")
    workers.note_cycle_started(shop.conn, "worker-1")
    workers.note_cycle_finished(shop.conn, "worker-1")
    return shop


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """`thermocline serve` of a shop, with a worker whose heart beats while it is asked."""

    url: str
    conn: Connection
    beats: list[bool]

    def readyz(self) -> tuple[int, dict[str, Any]]:
        if self.beats:
            workers.touch(self.conn, "worker-1")
        try:
            with urllib.request.urlopen(f"{self.url}/readyz") as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            with refused as answer:
                return answer.code, json.load(answer)

    def wait_for(self, code: int, sentence: str = "") -> dict[str, Any]:
        """What /readyz says once it answers so, within a minute."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            said = self.readyz()
            if said[0] == code and sentence in str(said[1]):
                return said[1]
            assert time.monotonic() < deadline, said
            time.sleep(0.2)

    def gauges(self) -> dict[str, float]:
        with urllib.request.urlopen(f"{self.url}/metrics") as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
        return {
            sample.name: sample.value
            for family in families
            for sample in family.samples
            if sample.labels.get("table", "public.events") == "public.events"
        }


@pytest.fixture
def served(registered: Shop) -> Iterator[Served]:
    """The application of `thermocline serve` on a real socket; it observes more often than the ten seconds of a stack,
    so that a minute is long."""
    watch = HealthWatch(registered.settings, refresh_seconds=0.2)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(make_app(registered.settings, watch), log_level="warning"))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    yield Served(url=f"http://127.0.0.1:{listening.getsockname()[1]}", conn=registered.conn, beats=[True])
    server.should_exit = True
    thread.join(timeout=60)
    watch.stop()


def _examined(shop: Shop) -> set[str]:
    return {finding.check for finding in examine(shop.settings) if finding.verdict == "red"}


def _shown(shop: Shop) -> set[str]:
    given = {"THERMOCLINE_WAREHOUSE": shop.settings.warehouse_location}
    given |= {"THERMOCLINE_GATEWAY_LISTEN": shop.settings.gateway_listen, "THERMOCLINE_DIR": str(shop.settings.dir)}
    command = [sys.executable, "-m", "thermocline", "show", "public.events", "--json", "--dsn", shop.dsn]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **given})
    return {problem["check"] for problem in json.loads(done.stdout)["problems"] if problem["verdict"] == "red"}


@pytest.mark.conforms("O-045", "O-175", "O-078", "O-079", "O-080")
def test_what_does_not_work_shows_within_a_minute_in_readiness_metrics_doctor_and_show(
    registered: Shop, served: Served
) -> None:
    served.wait_for(200)
    assert _examined(registered) == set()
    _, port = split_address(registered.settings.gateway_listen)
    moved = registered.warehouse.with_name("moved away")
    table = tables.find_table(registered.conn, parse_table_name("public.events"))

    def everywhere(check: str, sentence: str, metric: str) -> None:
        assert sentence in served.wait_for(503, sentence)["reason"]
        assert served.gauges()[metric] == 0
        if served.beats:
            workers.touch(registered.conn, "worker-1")
        assert check in _examined(registered)
        assert check in _shown(registered)

    registered.warehouse.rename(moved)
    everywhere("warehouse", "does not exist, and 1 table has", "thermocline_warehouse_reachable")
    moved.rename(registered.warehouse)
    served.wait_for(200)
    assert served.gauges()["thermocline_warehouse_reachable"] == 1

    metadata = Path(str(registered.rows("select metadata_location from thermocline_iceberg.iceberg_tables")[0][0]))
    metadata = Path(str(metadata).removeprefix("file:"))
    metadata.rename(metadata.with_name("gone"))
    everywhere("lake of public.events", "cannot be read", "thermocline_lake_reachable")
    metadata.with_name("gone").rename(metadata)
    served.wait_for(200)

    registered.run(f"alter server thermocline_gateway options (set port '{free_port()}')")
    assert "port" in served.wait_for(503, "foreign server")["reason"]
    assert served.gauges()["thermocline_foreign_server_reachable"] == 0
    assert "foreign server thermocline_gateway" in _examined(registered)
    assert "foreign server thermocline_gateway" in _shown(registered)
    registered.run(f"alter server thermocline_gateway options (set port '{port}')")
    served.wait_for(200)

    registered.run("insert into public_all.events values (2, '1999-01-05', 8)")
    assert note_fold_work(registered.conn, table).waiting == 1
    served.wait_for(200)
    registered.run("update thermocline.waiting_corrections set since = now() - interval '1 hour'")
    everywhere("corrections of public.events", "1 wait, some since", "thermocline_corrections_on_time")
    gauges = served.gauges()
    assert gauges["thermocline_delta_backlog_rows"] == 1
    assert gauges["thermocline_delta_oldest_seconds"] >= 3600
    registered.run("update thermocline.waiting_corrections set since = now()")
    served.wait_for(200)

    registered.run("update thermocline.workers set cycle_finished_at = now() - interval '1 hour'")
    everywhere("worker", "has finished no cycle since", "thermocline_worker_cycles_on_time")
    workers.note_cycle_finished(registered.conn, "worker-1")
    served.wait_for(200)
    assert served.gauges()["thermocline_workers"] == 1

    served.beats.clear()
    registered.run("update thermocline.workers set seen_at = now() - interval '31 seconds'")
    everywhere("worker", "no worker is alive; worker-1 was last seen", "thermocline_worker_cycles_on_time")
    assert served.gauges()["thermocline_workers"] == 0


@contextmanager
def _silent() -> Iterator[str]:
    """An address where connections are accepted by the kernel and nobody ever answers."""
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def _reds(observer: HealthObserver) -> dict[str, str]:
    return {found.check: found.seen for found in judge_health(observer.observe()) if found.verdict == "red"}


def test_a_gateway_that_never_answers_hangs_no_observation(registered: Shop) -> None:
    with _silent() as address:
        host, port = split_address(address)
        registered.run(f"alter server thermocline_gateway options (set port '{port}')")
        observer = HealthObserver(registered.settings.model_copy(update={"gateway_listen": address}), look_seconds=2)
        for _ in range(2):
            reds = _reds(observer)
            assert reds.keys() == {"gateway", "foreign server thermocline_gateway"}
            assert "no answer" in reds["foreign server thermocline_gateway"], (host, reds)


def test_a_warehouse_that_never_answers_hangs_no_observation(registered: Shop) -> None:
    """A pipe in the place of the metadata file: opening it waits for a writer that never comes."""
    ((location,),) = registered.rows("select metadata_location from thermocline_iceberg.iceberg_tables")
    path = Path(str(location).removeprefix("file:"))
    path.unlink()
    os.mkfifo(path)
    observer = HealthObserver(registered.settings, look_seconds=2)
    for _ in range(2):
        assert "no answer for" in _reds(observer)["warehouse"]
    _end_readers(path)


def _end_readers(pipe: Path) -> None:
    """Let every look that opened the pipe end: the observer's, and the gateway's own."""
    for _ in range(100):
        try:
            handle = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as nobody:
            if nobody.errno != errno.ENXIO:
                raise
            return
        os.write(handle, b"x")
        os.close(handle)
        time.sleep(0.1)


def test_a_gateway_that_cannot_read_the_lake_is_not_ready(registered: Shop) -> None:
    """It is asked as its HTTP server asks it; a single lake that is gone keeps it ready for the others."""
    config = GatewayConfig(dsn=registered.dsn, http_port=0)
    moved = registered.warehouse.with_name("moved away")

    async def ask() -> list[str | None]:
        async with GatewayServer(dsn=registered.dsn, config=config) as server:
            said = [await asyncio.to_thread(server.why_not_ready)]
            registered.warehouse.rename(moved)
            server._lake_reach._started_at = float("-inf")  # the last look is old by now
            said.append(await asyncio.to_thread(server.why_not_ready))
            moved.rename(registered.warehouse)
            return said

    ready, reason = asyncio.run(ask())
    assert ready is None
    assert "cannot be read: No such file or directory" in str(reason)


def test_without_postgres_the_observation_says_so_and_judges_the_rest(registered: Shop) -> None:
    away = registered.settings.model_copy(update={"dsn": f"host=127.0.0.1 port={free_port()} dbname=x"})
    assert _reds(HealthObserver(away)).keys() == {"postgres"}


def test_since_when_corrections_wait_outlives_the_worker_and_partial_folds(registered: Shop) -> None:
    """`since` stays while one of those that waited then still waits, and moves on when all of them are folded."""
    ((table_id,),) = registered.rows("select id from thermocline.tables")

    def note(rows: int, first: int | None = None, last: int | None = None) -> Any:
        with closing(connect(registered.dsn, autocommit=True)) as worker:  # another process each time
            note_waiting(worker, table_id, Waiting(rows=rows, first_version=first, last_version=last))
        return registered.rows("select since from thermocline.waiting_corrections")[0][0]

    assert note(0) is None
    first = note(5, 10, 20)
    assert first is not None
    assert note(9, 15, 40) == first
    assert note(2, 20, 60) == first
    second = note(3, 21, 60)
    assert second > first
    assert note(3, 60, 80) == second
    assert note(0) is None
    assert note(1, 5, 5) > second


def test_rights_that_the_role_of_the_worker_lacks_are_printed_as_the_statements_that_give_them(
    registered: Shop, make_role: Any
) -> None:
    """Run as printed, they are all that is missing."""
    role, owner = make_role(), make_role()
    registered.run(f"alter table public.events owner to {owner}")
    statements = [
        found.fix for found in examine(registered.settings) if found.check == "rights of the worker" and found.fix
    ]
    assert statements == [], "a superuser needs none"
    mine = registered.settings.model_copy(update={"dsn": registered.as_role(role)})

    def rights() -> Any:
        (found,) = [found for found in examine(mine) if found.check == "rights of the worker"]
        return found

    missing = rights()
    assert (missing.verdict, missing.fix) == ("red", f"GRANT postgres TO {role};"), "it names the others"
    registered.run(missing.fix)
    missing = rights()
    assert missing.verdict == "red"
    for wanted in (f"GRANT {owner} TO {role};", f"GRANT pg_read_all_stats TO {role};"):
        assert wanted in missing.fix
    registered.run(missing.fix)
    assert rights().verdict == "ok"


def test_settings_that_slow_or_stop_it_are_told_with_the_statement_to_run(registered: Shop) -> None:
    name = registered.conn.info.dbname

    def found(check: str) -> tuple[str, str]:
        (finding,) = [finding for finding in examine(registered.settings) if finding.check == check]
        return finding.verdict, finding.fix or ""

    registered.run(f"alter database \"{name}\" set idle_in_transaction_session_timeout = '5min'")
    verdict, fix = found("timeouts")
    assert (verdict, f"IN DATABASE {name} SET idle_in_transaction_session_timeout = 0;" in fix) == ("warning", True)
    registered.run(fix.split(" A copy")[0])
    assert found("timeouts") == ("ok", "")
    registered.run(f'alter database "{name}" set jit = off')
    assert found("jit") == ("ok", "")
    assert found("max_locks_per_transaction")[0] == "ok"
    assert found("max_connections")[0] == "ok"


def test_an_error_of_postgres_during_a_look_is_a_problem_that_was_seen(registered: Shop) -> None:
    """A lock on the catalog that is held for longer than the look may take."""
    observer = HealthObserver(registered.settings, look_seconds=4.0)
    with closing(connect(registered.dsn)) as holder:
        holder.execute("lock table thermocline.tables in access exclusive mode")
        seen = observer.observe()
    assert seen.postgres is not None
    assert "timeout" in seen.postgres.sentence
    assert observer.observe().postgres is None
