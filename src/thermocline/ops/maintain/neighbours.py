"""Other tables of the catalog with files where a table has its own: what may be theirs is never deleted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from thermocline.catalog.safety import read_metadata_locations
from thermocline.cold.folders import TableFolders, folder_of, is_below, read_folders
from thermocline.core.maintenance.files import plain_path
from thermocline.core.names import TableName
from thermocline.errors import LakeFileUnreadable
from thermocline.maintenance_errors import GcForbidden
from thermocline.ops.maintain.context import PassContext
from thermocline.ops.maintain.safety import LakeVersion, roots_of

_AT_ONCE = 16
_OBJECT_LAYOUT = "write.object-storage.enabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptFolders:
    """The folders a sweep lists, those it leaves out below them, and why others are not listed."""

    roots: tuple[str, ...]
    left_out: tuple[str, ...]
    reasons: tuple[str, ...] = ()


def check_is_one_table(context: PassContext, version: LakeVersion) -> None:
    """Refuse where the table is in the catalog under a second name, which names the same files."""
    for name, location in _with_metadata_beside(context, version).items():
        try:
            is_other = read_folders(location).uuid != str(version.metadata.table_uuid)
        except LakeFileUnreadable as problem:
            raise GcForbidden(f"{name} has its metadata beside that of {context.target.name} and cannot be read: {problem}") from problem
        if not is_other:
            raise GcForbidden(f"{context.target.name} and {name} are one table under two names: what one lets go of the other may need.")


def check_has_own_metadata(context: PassContext, version: LakeVersion) -> None:
    """Refuse where another table has its metadata files among the table's own."""
    if name := next(iter(_with_metadata_beside(context, version)), None):
        raise GcForbidden(f"{context.target.name} and {name} have their metadata in one folder: whose a file is cannot be told.")


def _with_metadata_beside(context: PassContext, version: LakeVersion) -> dict[TableName, str]:
    mine = {folder_of(version.head.metadata_location), plain_path(f"{version.metadata.location.rstrip('/')}/metadata")}
    return {name: location for name, location in _others(context).items() if folder_of(location) in mine}


def _others(context: PassContext) -> dict[TableName, str]:
    return {name: location for name, location in read_metadata_locations(context.conn).items() if name != context.target.name}


def plan_folders(context: PassContext, version: LakeVersion) -> SweptFolders:
    """Where the sweep may look: every folder of the table that no other table writes to, without those of others below it."""
    mine = version.metadata.location.rstrip("/")
    found = _others(context)
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="neighbours") as pool:
        others = dict(zip(found, pool.map(_folders, found.values()), strict=True))
    if shared := next((name for name, found in others.items() if plain_path(found.location) == plain_path(mine)), None):
        raise GcForbidden(f"{context.target.name} and {shared} have their files in one folder, {mine}: whose a file is cannot be told.")
    roots, reasons = [], []
    for root in roots_of(version):
        if reason := _why_not(root, mine, version, others):
            reasons.append(f"{root} is not swept: {reason}")
        else:
            roots.append(root)
    left_out = {place for found in others.values() for place in (found.location, *found.others)}
    return SweptFolders(roots=tuple(roots), left_out=tuple(sorted(left_out)), reasons=tuple(reasons))


def _why_not(root: str, mine: str, version: LakeVersion, others: dict[TableName, TableFolders]) -> str | None:
    if name := next((name for name, found in others.items() if any(is_below(root, place) for place in found.written)), None):
        return f"{name} writes there too"
    if not is_below(root, mine) and version.head.properties.get(_OBJECT_LAYOUT, "").strip().lower() == "true":
        return "the layout for object stores is made for folders that tables share"
    return None


def _folders(metadata_location: str) -> TableFolders:
    """A table whose metadata cannot be read is taken to be where that metadata is."""
    try:
        return read_folders(metadata_location)
    except LakeFileUnreadable:
        folder = metadata_location.rpartition("/")[0]
        return TableFolders(uuid=None, location=folder.removesuffix("/metadata"), others=(folder,))
