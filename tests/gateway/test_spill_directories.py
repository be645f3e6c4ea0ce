"""A gateway's spill directory: removed at its end, or by the next gateway when it was killed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from thermocline.errors import GatewayNotStarted
from thermocline.gateway.executor.spill_directory import SpillDirectory
from thermocline.gateway.server import start_in_thread

KILLED = (
    "import os, signal; from thermocline.gateway.executor.spill_directory import SpillDirectory; made = "
    "SpillDirectory(); "
)
KILLED += "(made.path / 'rows.tmp').touch(); print(made.path, flush=True); os.kill(os.getpid(), signal.SIGKILL)"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory for this test only."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_the_next_gateway_removes_what_a_killed_one_left_and_nothing_of_one_that_lives(place: Path) -> None:
    living = SpillDirectory()
    (living.path / "rows.tmp").touch()
    killed = Path(
        subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, check=False).stdout.strip()
    )
    assert set(place.iterdir()) == {living.path, killed}
    later = SpillDirectory()
    assert set(place.iterdir()) == {living.path, later.path}
    assert (living.path / "rows.tmp").exists()
    later.close()
    living.close()
    assert list(place.iterdir()) == []


def test_a_directory_that_is_only_just_made_or_somebody_elses_stays(place: Path) -> None:
    strange = place / "thermocline-gateway-strange"
    strange.mkdir()
    SpillDirectory().close()
    assert list(place.iterdir()) == [strange]


def test_a_gateway_that_cannot_start_leaves_nothing(place: Path) -> None:
    # The database is reached by statements only, so any address will do.
    with start_in_thread("host=127.0.0.1 port=1") as running, pytest.raises(GatewayNotStarted):
        start_in_thread("host=127.0.0.1 port=1", port=running.port)
    assert list(place.iterdir()) == []
