"""How one lake file can be written, as text alone: what is certainly the same name, and what may be.

Iceberg keeps a path as its writer wrote it, and no two programs read one alike: Hadoop removes double slashes and dots,
S3FileIO takes them literally and cuts at `?` and `#`, file systems compose accents, people type escapes. So there are
two forms. Equal **canonical** forms are one file for every reader. Different **loose** forms are two files for every
reader. What lies between is nobody's to delete.
"""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote

_PARTS = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(.*)$", re.DOTALL)
_S3 = frozenset({"s3", "s3a", "s3n"})
_CUTS = re.compile("[?#]")
_DECODINGS = 4
_ENDINGS = (".metadata.json", ".metadata.json.gz", ".avro", ".stats", ".puffin", ".text")


def split_path(path: str) -> tuple[str, str, str]:
    """Scheme in lower case (s3 for its kin, none for this machine), authority, and the rest as it is written."""
    found = _PARTS.match(path)
    if found is None:
        return "", "", path
    scheme = found[1].lower()
    if scheme == "file":
        return "", "", found[3]
    return ("s3" if scheme in _S3 else scheme), found[2] or "", found[3]


def canonical_path(path: str) -> str:
    """The one form of spellings that no reader tells apart. On this machine slashes and dots do not count; in a store
    everything does."""
    scheme, authority, rest = split_path(path)
    if scheme:
        return f"{scheme}://{authority}{rest}"
    return "/" + "/".join([part for part in rest.split("/") if part not in ("", ".")])


def literal_path(path: str) -> str:
    """The path as it is written, but for its scheme."""
    scheme, authority, rest = split_path(path)
    return f"{scheme}://{authority}{rest}" if scheme else rest


def loose_path(path: str) -> str:
    """What all spellings of one file have in common, whatever store they say it is in."""
    return _loosened(split_path(path)[2])


def loose_paths(path: str) -> tuple[str, ...]:
    """The loose forms of a path that somebody reads: as it is, and cut wherever a URI could have its query or
    fragment."""
    rest = split_path(path)[2]
    cuts = [found.start() for found in _CUTS.finditer(rest)] if "?" in rest or "#" in rest else []
    return tuple(dict.fromkeys(_loosened(one) for one in (rest, *(rest[:at] for at in cuts))))


def loose_folder(path: str) -> str:
    """The loose form of a folder, with the store it is in: tables in two buckets may have folders of one name."""
    scheme, authority, rest = split_path(path)
    return f"{scheme}:{authority.partition(':')[0].lower()}{_loosened(rest)}".rstrip("/")


def _loosened(rest: str) -> str:
    for _ in range(_DECODINGS):
        rest, before = unquote(rest.replace("+", " ")), rest
        if rest == before:
            break
    parts: list[str] = []
    for part in unicodedata.normalize("NFC", unicodedata.normalize("NFC", rest).casefold()).split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def base_name(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


def has_unique_name(path: str) -> bool:
    """Whether the file is of a kind whose names are made to be unique in a table, wherever they lie: metadata,
    manifests, statistics."""
    return path.endswith(_ENDINGS)


def is_ambiguous_key(path: str) -> bool:
    """Whether a key of a store has parts that some clients leave out: asked to delete it, they would delete another
    one."""
    scheme, _, rest = split_path(path)
    return bool(scheme) and any(part in ("", ".", "..") for part in rest.removeprefix("/").split("/"))


def is_text(path: str) -> bool:
    """Whether the name is valid Unicode; others can be neither noted in Postgres nor named by Iceberg."""
    return not any("\ud800" <= letter <= "\udfff" for letter in path)
