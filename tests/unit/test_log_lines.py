"""Log lines spell the codes of our errors as commands, SQL and HTTP do."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from thermocline.errors import LockNotGranted, WholeQueryRefused
from thermocline.runtime.log import configure_logging

LOG = logging.getLogger("thermocline.worker")


@pytest.fixture(autouse=True)
def _root_logger_restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_an_error_in_a_log_line_begins_with_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("text")
    LOG.error("%s: %s", "public.events", LockNotGranted("No lock, 5% done."), extra={"action": "cycle"})
    LOG.info("no placeholder, 100% literal")
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("error   worker: public.events: TC401: No lock, 5% done. action=cycle")
    assert second.endswith("no placeholder, 100% literal")


def test_a_json_line_has_the_code_as_a_field(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("json")
    LOG.error("statement %s failed: %s", "ab12", WholeQueryRefused("Not this one."))
    try:
        raise LockNotGranted()
    except LockNotGranted:
        LOG.exception("maintenance stumbled")
    LOG.info("moved %(rows)d rows", {"rows": 3})
    refused, raised, plain = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (refused["code"], refused["message"]) == ("TC510", "statement ab12 failed: TC510: Not this one.")
    assert (raised["code"], raised["message"]) == ("TC401", "maintenance stumbled")
    assert ("code" in plain, plain["message"]) == (False, "moved 3 rows")
