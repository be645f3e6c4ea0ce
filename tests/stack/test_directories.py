"""Directories that cannot be written or are full."""

from __future__ import annotations

import stat
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from thermocline.core.columns import LakeColumn
from thermocline.core.names import TableName
from thermocline.errors import DirectoryUnusable
from thermocline.lake.commit.create_table import create_lake_table
from thermocline.runtime.directories import check_directory, check_warehouse, make_private_directory
from thermocline.runtime.locations import local_path

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


@pytest.mark.parametrize(("is_shared", "mode"), [(False, 0o700), (True, 0o755)])
def test_a_warehouse_and_a_lake_table_are_their_owners_alone_unless_they_are_shared(
    tmp_path: Path, *, is_shared: bool, mode: int
) -> None:
    check_warehouse(str(tmp_path / "made"), is_shared=is_shared)
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == mode
    column = LakeColumn(
        name="id", field_id=1, base_type="int8", pg_type="bigint", lake_type="long", form="native", required=True
    )
    (tmp_path / "there").mkdir(mode=0o755)
    made = create_lake_table(
        str(tmp_path / "there"),
        TableName("public", "events"),
        (column,),
        "id",
        "none",
        table_uuid=uuid.uuid4(),
        is_shared=is_shared,
    )
    directory = local_path(made.location)
    assert directory is not None
    assert stat.S_IMODE(directory.stat().st_mode) == mode
    assert stat.S_IMODE((tmp_path / "there").stat().st_mode) == 0o755


def test_a_directory_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir(mode=0o750)
    make_private_directory(tmp_path / "logs")
    assert stat.S_IMODE((tmp_path / "logs").stat().st_mode) == 0o750


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
