"""Errors of files that cannot be read as Parquet."""

from __future__ import annotations

from thermocline.errors import LakeInputUnreadable

_OTHER_FORMATS = {b"ORC": "ORC", b"Obj\x01": "Avro", b"PFA1": "Puffin"}


def not_parquet(path: str, first_bytes: bytes) -> LakeInputUnreadable:
    """The error of a file without Parquet's magic number; it names the format that the file seems to have."""
    for mark, name in _OTHER_FORMATS.items():
        if first_bytes.startswith(mark):
            return LakeInputUnreadable(f"Lake file {path} is {name}, not Parquet.")
    return LakeInputUnreadable(f"Lake file {path} is no Parquet file, or a truncated one.")


def damaged(path: str, problem: object) -> LakeInputUnreadable:
    return LakeInputUnreadable(
        f"Lake file {path} cannot be read: {str(problem).rstrip('.') or type(problem).__name__}."
    )
