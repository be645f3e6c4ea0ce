"""What we may do in a warehouse: a file is written, listed, read and deleted there, as tiering, sweeps and the janitor
will."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow.fs as fs

from thermocline.errors import ThermoclineError
from thermocline.ops.doctor.findings import Finding, red
from thermocline.runtime.directories import check_directory
from thermocline.runtime.file_io import open_location
from thermocline.runtime.object_store import is_object_location

ROOMY_BYTES = 2 * 1024**3
_CONTENT = b"written by `thermocline doctor`; it may be deleted"
_RIGHTS = {"write": "s3:PutObject", "list": "s3:ListBucket", "read": "s3:GetObject", "delete": "s3:DeleteObject"}


def probe_warehouse(location: str, check: str) -> Finding:
    """Whether the warehouse can be used as it must be, and has room."""
    try:
        return _examine_store(location, check) if is_object_location(location) else _examine_directory(location, check)
    except ThermoclineError as problem:
        return red(check, problem)


def _examine_directory(location: str, check: str) -> Finding:
    directory = Path(location.removeprefix("file://"))
    if not directory.exists():
        return Finding(
            check=check, verdict="warning", seen=f"{location} does not exist yet", fix="`thermocline up` makes it."
        )
    check_directory(directory, "The warehouse")
    free_bytes = shutil.disk_usage(directory).free
    seen = f"{location} is writable, {free_bytes / 1024**3:.1f} GB free"
    if free_bytes < ROOMY_BYTES:
        return Finding(
            check=check,
            verdict="warning",
            seen=seen,
            fix="Free some space: files are written before old ones are removed.",
        )
    return Finding(check=check, verdict="ok", seen=seen)


def _examine_store(location: str, check: str) -> Finding:
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
        return Finding(check=check, verdict="ok", seen=f"{location}: a file was written, listed, read and deleted")
    if "write" in failed:
        failed = {"write": failed["write"]}  # the rest was tried on a file that is not there
    left = f"; {path} was left there" if "delete" in failed else ""
    return Finding(
        check=check,
        verdict="red",
        seen=f"{location}: may not {', '.join(failed)}: {next(iter(failed.values()))}{left}",
        fix=f"Allow {', '.join(_RIGHTS[step] for step in failed)} below {location} to the keys in use, or correct "
        "warehouse, s3_endpoint or"
        " the keys (AWS_ACCESS_KEY_ID, or s3_credentials_file).",
    )


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
