"""Tables of any catalog in the database that share folders with a table. Files that may be theirs are never deleted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from thermocline.errors import LakeFileUnreadable
from thermocline.errors.maintenance import FolderShared
from thermocline.lake.catalogs.base import CatalogTable
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.lake.files.delete_trees import may_be_below
from thermocline.lake.files.folders import TableFolders, folders_or_guess, is_same_folder, read_folders
from thermocline.lake.files.other_writers import metadata_folders
from thermocline.maintain.context import PassContext
from thermocline.maintain.plans.safety import LakeVersion, roots_of

_AT_ONCE = 16
_OBJECT_LAYOUT = "write.object-storage.enabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptFolders:
    """The folders a sweep lists, those it leaves out below them, and why others are not listed."""

    roots: tuple[str, ...]
    left_out: tuple[str, ...]
    reasons: tuple[str, ...] = ()


def check_is_one_table(context: PassContext, version: LakeVersion) -> None:
    """Refuse where the table is in some catalog under a second name, which names the same files."""
    sharing = _tables_sharing_metadata_folder(context, version)
    for name, location in _others(context).items():
        try:
            is_other = read_folders(location).uuid != str(version.metadata.table_uuid)
        except LakeFileUnreadable as problem:
            if name not in sharing:
                continue
            raise FolderShared(
                f"{name} has its metadata beside that of {context.target.name} and cannot be read: {problem}"
            ) from problem
        if not is_other:
            raise FolderShared(
                f"{context.target.name} and {name} are one table under two names: what one lets go of the "
                "other may need."
            )


def check_has_own_metadata(context: PassContext, version: LakeVersion) -> None:
    """Refuse where another table has its metadata files among the table's own, or where the table has a second name."""
    if name := next(iter(_tables_sharing_metadata_folder(context, version)), None):
        raise FolderShared(
            f"{context.target.name} and {name} have their metadata in one folder: whose a file is cannot be told."
        )
    check_is_one_table(context, version)


def _tables_sharing_metadata_folder(context: PassContext, version: LakeVersion) -> dict[CatalogTable, str]:
    mine = metadata_folders(version.metadata, version.head.metadata_location)
    return {
        name: location
        for name, location in _others(context).items()
        if any(is_same_folder(location.rpartition("/")[0], folder) for folder in mine)
    }


def _others(context: PassContext) -> dict[CatalogTable, str]:
    """Every table of every catalog in the database but this one."""
    return {
        table: location
        for table, location in lake_catalog().read_all_metadata_locations(context.conn).items()
        if not (table.is_ours and table.name == context.target.name)
    }


def plan_folders(context: PassContext, version: LakeVersion) -> SweptFolders:
    """The folders that the sweep may list: every folder of the table that no other table writes to, without other
    tables' folders below it."""
    mine = version.metadata.location.rstrip("/")
    check_is_one_table(context, version)
    found = _others(context)
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="neighbours") as pool:
        others = dict(zip(found, pool.map(folders_or_guess, found.values()), strict=True))
    if shared := next(
        (name for name, found in others.items() if any(is_same_folder(place, mine) for place in found.all)), None
    ):
        raise FolderShared(
            f"{context.target.name} and {shared} have their files in one folder, {mine}: whose a file is "
            "cannot be told."
        )
    roots, reasons = [], []
    for root in roots_of(version):
        if reason := _why_not(root, mine, version, others):
            reasons.append(f"{root} is not swept: {reason}")
        else:
            roots.append(root)
    left_out = {place for found in others.values() for place in found.all}
    return SweptFolders(roots=tuple(roots), left_out=tuple(sorted(left_out)), reasons=tuple(reasons))


def _why_not(root: str, mine: str, version: LakeVersion, others: dict[CatalogTable, TableFolders]) -> str | None:
    if name := next(
        (name for name, found in others.items() if any(may_be_below(root, place) for place in found.written)), None
    ):
        return f"{name} writes there too"
    if not may_be_below(root, mine) and version.head.properties.get(_OBJECT_LAYOUT, "").strip().lower() == "true":
        return "the layout for object stores is made for folders that tables share"
    return None
