"""Why a bin cannot be rewritten, with the file named."""

from __future__ import annotations

from thermocline.errors import RefusedError


class LakeInputUnreadable(RefusedError):
    """A file of the bin cannot be read; the bin is left as it is."""

    code = "TC320"
    hint = (
        "The file is damaged, or in a format this kernel does not read; other bins go on. Restore it, or take it "
        "out of the table."
    )


class RewriteUnsupported(RefusedError):
    """A file of the bin holds something this kernel cannot rewrite; the bin is left as it is."""

    code = "TC321"
    hint = "Rewrite this table with another engine, or leave it out of compaction (`rewrite_enabled=false`)."


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
