"""A warehouse, looked at from this process: can the lakes in it be read, and, for `doctor`, can a file be written,
listed, read and deleted there, as tiering, sweeps and the janitor will."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.fs as fs

from thermocline.core.health.health_observation import ProblemSeen, TableSeen, WarehouseSeen
from thermocline.errors import LakeFileUnreadable, ThermoclineError
from thermocline.lake.read.storage import LakeReader
from thermocline.runtime.directories import check_directory
from thermocline.runtime.file_io import open_location
from thermocline.runtime.object_store import is_object_location

_CONTENT = b"written by `thermocline doctor`; it may be deleted"
_RIGHTS = {"write": "s3:PutObject", "list": "s3:ListBucket", "read": "s3:GetObject", "delete": "s3:DeleteObject"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Warehouse:
    """A place of lake files, and the tables whose lakes are there."""

    location: str
    profile: str | None
    tables: tuple[TableSeen, ...]

    def seen(self, text: str = "", *, exists: bool = True, problem: ProblemSeen | None = None) -> WarehouseSeen:
        return WarehouseSeen(
            location=self.location,
            profile=self.profile,
            tables=len(self.tables),
            exists=exists,
            seen=text,
            problem=problem,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LakesSeen:
    """A warehouse, and for each lake in it that was tried why it cannot be read."""

    warehouse: WarehouseSeen
    lakes: dict[str, ProblemSeen | None]


def read_warehouse(place: Warehouse, tried: Iterable[TableSeen]) -> LakesSeen:
    """Open the warehouse and the current metadata file of these tables.

    A lake's file that is not there is that lake's problem. Whatever else fails (the store does not answer, the keys are
    refused) is the warehouse's: the other lakes would only give the same answer.
    """
    if not is_object_location(place.location) and (problem := _why_not_open(place)) is not None:
        return LakesSeen(warehouse=problem, lakes={})
    lakes: dict[str, ProblemSeen | None] = {}
    for table in tried:
        if table.lake is None:
            lakes[table.table] = ProblemSeen(sentence="it is not in the Iceberg catalog any more")
            continue
        try:
            with closing(LakeReader().new_input(table.lake).open()) as stream:
                stream.read(1)
            lakes[table.table] = None
        except (LakeFileUnreadable, OSError) as problem:
            cause = problem.__cause__ or problem
            if not isinstance(cause, FileNotFoundError):
                sentence = f"{place.location}: {str(problem).rstrip('.')}"
                return LakesSeen(warehouse=place.seen(problem=ProblemSeen(sentence=sentence)), lakes=lakes)
            lakes[table.table] = ProblemSeen(sentence=str(problem).rstrip("."))
    return LakesSeen(warehouse=place.seen(f"{place.location} can be read"), lakes=lakes)


def try_rights(place: Warehouse) -> WarehouseSeen:
    """Whether the warehouse can be used as it must be, and its room."""
    try:
        return _try_store(place) if is_object_location(place.location) else _try_directory(place)
    except ThermoclineError as problem:
        return place.seen(problem=ProblemSeen(sentence=str(problem), fix=problem.hint or None))


def _why_not_open(place: Warehouse) -> WarehouseSeen | None:
    try:
        with os.scandir(_directory(place)) as entries:
            next(entries, None)
    except FileNotFoundError:
        return place.seen(exists=False)
    except OSError as problem:
        sentence = f"{place.location} cannot be read: {problem.strerror}"
        return place.seen(problem=ProblemSeen(sentence=sentence))
    return None


def _directory(place: Warehouse) -> Path:
    return Path(place.location.removeprefix("file://"))


def _try_directory(place: Warehouse) -> WarehouseSeen:
    directory = _directory(place)
    if not directory.exists():
        return place.seen(exists=False)
    check_directory(directory, "The warehouse")
    free_bytes = shutil.disk_usage(directory).free
    seen = place.seen(f"{place.location} is writable, {free_bytes / 1024**3:.1f} GB free")
    return replace(seen, free_bytes=free_bytes)


def _try_store(place: Warehouse) -> WarehouseSeen:
    location = place.location
    filesystem, root = open_location(location)
    path = f"{root}/thermocline-doctor-{uuid.uuid4().hex}"  # nobody else's: it is deleted without a proof
    steps: dict[str, Callable[[], object]] = {
        "write": lambda: _write(filesystem, path),
        "list": lambda: _find(filesystem, root, path),
        "read": lambda: _read(filesystem, path),
        "delete": lambda: filesystem.delete_file(path),
    }
    failed = {step: problem for step, act in steps.items() if (problem := _why_not(act)) is not None}
    if not failed:
        return place.seen(f"{location}: a file was written, listed, read and deleted")
    if "write" in failed:
        failed = {"write": failed["write"]}  # the rest was tried on a file that is not there
    left = f"; {path} was left there" if "delete" in failed else ""
    refused = ProblemSeen(
        sentence=f"{location}: may not {', '.join(failed)}: {next(iter(failed.values()))}{left}",
        fix=f"Allow {', '.join(_RIGHTS[step] for step in failed)} below {location} to the keys in use, or correct "
        "warehouse, s3_endpoint or the keys (AWS_ACCESS_KEY_ID, or s3_credentials_file).",
    )
    return place.seen(problem=refused)


def _why_not(act: Callable[[], object]) -> str | None:
    try:
        act()
    except OSError as problem:
        return str(problem).strip().splitlines()[0].rstrip(".")
    return None


def _write(filesystem: fs.FileSystem, path: str) -> None:
    with filesystem.open_output_stream(path) as sink:
        sink.write(_CONTENT)


def _find(filesystem: fs.FileSystem, root: str, path: str) -> None:
    if path not in {found.path for found in filesystem.get_file_info(fs.FileSelector(root))}:
        raise FileNotFoundError(f"{path} was written and is not listed")


def _read(filesystem: fs.FileSystem, path: str) -> None:
    with filesystem.open_input_stream(path) as source:
        if source.read() != _CONTENT:
            raise OSError(f"{path} reads otherwise than it was written")
