"""Delete the whole folder of a lake table that no catalog contains any more."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import InitVar, dataclass

import pyarrow.fs as fs

from thermocline.core.lake_paths import canonical_path, is_ambiguous_key, loose_folder
from thermocline.errors.maintenance import FolderInUse
from thermocline.runtime.file_io import open_location
from thermocline.runtime.locations import local_path

_SEAL = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletableTree:
    """A folder in which no table of any catalog has files."""

    location: str
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise TypeError("only judge_tree makes a DeletableTree")


def folder_forms(location: str) -> frozenset[str]:
    """A folder in every form in which folders are compared: normalised, and with links resolved."""
    text = canonical_path(location).rstrip("/")
    real = {os.path.realpath(text)} if text.startswith("/") else set()
    return frozenset({loose_folder(location), *(loose_folder(path) for path in real)})


def may_be_below(path: str, folder: str) -> bool:
    """Whether a path is, or under some spelling may be, the folder or a path below it."""
    return forms_meet(folder_forms(path), folder_forms(folder))


def forms_meet(inner: Iterable[str], outer: Iterable[str]) -> bool:
    return any(f"{path}/".startswith(f"{folder}/") for path in inner for folder in outer)


def judge_tree(location: str, in_use: Iterable[str]) -> DeletableTree:
    """The proof for a folder; refused when a path in use is, or may be, below it."""
    forms = folder_forms(location)
    if met := next((path for path in in_use if forms_meet(folder_forms(path), forms)), None):
        raise FolderInUse(
            f"{location} is not deleted: {met}, which a table of this database uses, lies in it or may do so."
        )
    return DeletableTree(location=location, seal=_SEAL)


def delete_tree(tree: DeletableTree) -> None:
    """Delete every file below the folder. Keys that a client would take for others stay."""
    if (directory := local_path(tree.location)) is not None:
        shutil.rmtree(directory, ignore_errors=True)
        return
    filesystem, path = open_location(tree.location)
    for found in filesystem.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True)):
        if found.type == fs.FileType.File and not is_ambiguous_key(f"s3://{found.path}"):
            filesystem.delete_file(found.path)
