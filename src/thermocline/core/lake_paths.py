"""Comparison of lake file paths that are spelled differently.

Iceberg stores a path as its writer spelled it, and readers interpret it differently: Hadoop removes double slashes and
dots, S3FileIO takes them literally and cuts at `?` and `#`, file systems compose accents, people type escapes. So a
path has two normal forms. Equal **canonical** forms name one file for every reader. Different **loose** forms name two
files for every reader. A file that is neither provably the same nor provably different is not deleted.
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
    """Scheme in lower case (s3 for s3a and s3n, empty for local files), authority, and the rest as written."""
    found = _PARTS.match(path)
    if found is None:
        return "", "", path
    scheme = found[1].lower()
    if scheme == "file":
        return "", "", found[3]
    return ("s3" if scheme in _S3 else scheme), found[2] or "", found[3]


def canonical_path(path: str) -> str:
    """The canonical form. Double slashes and dots are removed from local paths; in an object store every character
    counts."""
    scheme, authority, rest = split_path(path)
    if scheme:
        return f"{scheme}://{authority}{rest}"
    return "/" + "/".join([part for part in rest.split("/") if part not in ("", ".")])


def literal_path(path: str) -> str:
    """The path as written, with its scheme normalised."""
    scheme, authority, rest = split_path(path)
    return f"{scheme}://{authority}{rest}" if scheme else rest


def loose_path(path: str) -> str:
    """The loose form: the same for every spelling of one file, whatever store it names."""
    return _loosen(split_path(path)[2])


def loose_paths(path: str) -> tuple[str, ...]:
    """The loose forms of a path as readers may interpret it: whole, and cut wherever a URI could have its query or
    fragment."""
    rest = split_path(path)[2]
    cuts = [found.start() for found in _CUTS.finditer(rest)] if "?" in rest or "#" in rest else []
    return tuple(dict.fromkeys(_loosen(one) for one in (rest, *(rest[:at] for at in cuts))))


def loose_folder(path: str) -> str:
    """The loose form of a folder with its store: two buckets may have folders of the same name."""
    scheme, authority, rest = split_path(path)
    return f"{scheme}:{authority.partition(':')[0].lower()}{_loosen(rest)}".rstrip("/")


def _loosen(rest: str) -> str:
    # Folded before each decoding too: decomposed, `%0é` begins with an escape, and so does `%ﬀ` in upper case.
    rest = _fold(rest)
    for _ in range(_DECODINGS):
        rest, before = _fold(unquote(rest.replace("+", " "))), rest
        if rest == before:
            break
    parts: list[str] = []
    for part in unicodedata.normalize("NFC", rest).split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _fold(text: str) -> str:
    """Unicode's canonical caseless form."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", text).casefold())


def base_name(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


def has_unique_name(path: str) -> bool:
    """Whether files of this kind have names that are unique within a table: metadata, manifests, statistics."""
    return path.endswith(_ENDINGS)


def is_ambiguous_key(path: str) -> bool:
    """Whether an object key has parts that some clients drop: they would delete another object in its stead."""
    scheme, _, rest = split_path(path)
    return bool(scheme) and any(part in ("", ".", "..") for part in rest.removeprefix("/").split("/"))


def is_text(path: str) -> bool:
    """Whether the name is valid Unicode; other names can neither be stored in Postgres nor written by Iceberg."""
    return not any("\ud800" <= letter <= "\udfff" for letter in path)
