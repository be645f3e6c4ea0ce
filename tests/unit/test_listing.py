"""The listing of a table's folders: in one order, in parts, and on from where it was cut off."""

from __future__ import annotations

import threading
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thermocline.lake.files.listing import list_files, list_parts

FOLDERS = ("", "a", "a/b", "a/b/c", "a-b", "b", "b/a", "metadata")


def fill(root: Path, per_folder: int) -> Path:
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
        for at in range(per_folder):
            (root / folder / f"f{at}").touch()
    return root


def names(root: Path, after: str | None) -> list[str]:
    parts = list_parts(f"file://{root}", after=after)
    return [file.path.removeprefix(f"file://{root}/") for part in parts for file in part.files]


@pytest.mark.parametrize("after", [None, *FOLDERS])
def test_a_listing_goes_on_after_any_folder_and_lists_each_file_once(tmp_path: Path, after: str | None) -> None:
    root = fill(tmp_path, 2)
    order = [part.finished for part in list_parts(f"file://{root}") if part.finished is not None]
    assert sorted(order) == sorted(FOLDERS)
    wanted = order[order.index(after) + 1 :] if after is not None else order
    assert sorted(names(root, after)) == sorted(f"{folder}/f{at}".lstrip("/") for folder in wanted for at in range(2))


@given(st.integers(0, 3))
def test_what_is_there_when_the_listing_ends_is_what_python_walks(
    tmp_path_factory: pytest.TempPathFactory, per_folder: int
) -> None:
    root = fill(tmp_path_factory.mktemp("listed"), per_folder)
    (root / "link").symlink_to(root / "a")
    (root / "_thermocline_quarantine").mkdir()
    (root / "_thermocline_quarantine" / "kept").touch()
    listed = {file.path for file in list_files(f"file://{root}", [f"file://{root}/b"])}
    walked = {f"file://{path}" for path in root.rglob("*") if path.is_file() and not path.is_symlink()}
    assert listed == {path for path in walked if "/b/" not in path.replace("/a/b/", "") and "_quarantine" not in path}


def test_a_folder_that_is_not_there_is_empty_and_one_that_cannot_be_read_stops_the_listing(tmp_path: Path) -> None:
    assert list(list_files(f"file://{tmp_path}/nowhere")) == []
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        list(list_files(f"file://{tmp_path}/file"))


def test_a_listing_that_nobody_reads_on_leaves_no_thread_behind(tmp_path: Path) -> None:
    root = fill(tmp_path, 1)
    for at in range(3000):
        (root / "a" / f"more{at}").touch()
    before = threading.active_count()
    for _ in list_parts(f"file://{root}"):
        break
    deadline = time.monotonic() + 30
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= before


def test_the_memory_of_a_listing_does_not_grow_with_the_folder(tmp_path: Path) -> None:
    def peak(files: int) -> int:
        folder = tmp_path / str(files)
        folder.mkdir()
        for at in range(files):
            (folder / f"00000-{at:08}-part.parquet").touch()
        tracemalloc.start()
        assert sum(1 for _ in list_files(f"file://{folder}")) == files
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    assert peak(10_000) < peak(2_500) * 1.5
