"""Sentences for lake files that cannot be read as Parquet."""

from __future__ import annotations

from thermocline.errors import LakeInputUnreadable

_OTHER_FORMATS = {b"ORC": "ORC", b"Obj\x01": "Avro", b"PFA1": "Puffin"}


def not_parquet(path: str, first_bytes: bytes) -> LakeInputUnreadable:
    """The sentence for a file that lacks Parquet's marks, naming what it looks like."""
    for mark, name in _OTHER_FORMATS.items():
        if first_bytes.startswith(mark):
            return LakeInputUnreadable(f"Lake file {path} is {name}, not Parquet.")
    return LakeInputUnreadable(f"Lake file {path} is no Parquet file, or a truncated one.")


def damaged(path: str, problem: object) -> LakeInputUnreadable:
    return LakeInputUnreadable(
        f"Lake file {path} cannot be read: {str(problem).rstrip('.') or type(problem).__name__}."
    )
