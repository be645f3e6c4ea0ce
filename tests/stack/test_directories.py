"""Directories that cannot be written or are full."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from thermocline.errors import DirectoryUnusable
from thermocline.runtime.directories import check_directory, check_warehouse

WRITE_WITHOUT_ROOM = """
import resource, sys
from pathlib import Path
from thermocline.runtime.directories import check_directory
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
check_directory(Path(sys.argv[1]), "The warehouse")
"""


def test_a_missing_warehouse_is_made(tmp_path: Path) -> None:
    check_warehouse(f"file://{tmp_path}/a/b")
    assert (tmp_path / "a" / "b").is_dir()
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_warehouse_that_is_a_file_is_refused_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("")
    with pytest.raises(DirectoryUnusable, match=f"The warehouse {tmp_path}/lake cannot be written: File exists"):
        check_warehouse(str(tmp_path / "lake"))


def test_a_warehouse_without_enough_room_is_refused_with_what_is_free(tmp_path: Path) -> None:
    with pytest.raises(DirectoryUnusable, match=r"has only \d+ MB free"):
        check_directory(tmp_path, "The warehouse", least_free_bytes=2**62)


def test_a_warehouse_that_takes_no_byte_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITE_WITHOUT_ROOM, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert f"DirectoryUnusable: The warehouse {tmp_path} cannot be written: File too large." in done.stderr
