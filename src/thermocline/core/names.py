"""Names of tables and of the objects made for them, safe against length and collision."""

from __future__ import annotations

import hashlib
import re
import string
from dataclasses import dataclass

from thermocline.errors import BadTableName, UsageError

LAKE_CATALOG = "thermocline"
"""The name of the Iceberg catalog of the lake tables, in Spark and in the catalog itself."""

MAX_IDENTIFIER_BYTES = 63
MAX_JOINED_BYTES = 48  # leaves room for the suffixes of functions and the spill

# As Postgres' scanner has it: every character outside ASCII is a letter, and only ASCII is folded. Outside ASCII is
# written as a negated set: a range up to \U0010ffff takes 10 ms to compile, at every start of the command line.
_PART = r'(?:"(?:[^"\x00]|"")+"|(?:[A-Za-z_]|[^\x00-\x7f])(?:[A-Za-z0-9_$]|[^\x00-\x7f])*)'
_SPACE = r"[ \t\n\r\f\v]*"
_QUALIFIED = re.compile(rf"{_SPACE}({_PART}){_SPACE}\.{_SPACE}({_PART}){_SPACE}")
_FOLDED = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*")


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A schema-qualified name, unquoted and exact."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{quote_name(self.schema)}.{quote_name(self.table)}"


def quote_name(name: str) -> str:
    """The name as a person would type it: quoted only where it must be."""
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def parse_table_name(text: str) -> TableName:
    """`schema.table`, quoted parts included, folded to lower case as Postgres folds them."""
    found = _QUALIFIED.fullmatch(text)
    if not found:
        raise BadTableName(f"{text!r} is not the name of a table.")
    return TableName(_unquote(found[1]), _unquote(found[2]))


def parse_plain_name(text: str) -> str | None:
    """A name without a schema, folded as Postgres folds it; None where the text is not one."""
    found = re.fullmatch(rf"{_SPACE}({_PART}){_SPACE}", text)
    return _unquote(found[1]) if found else None


def parse_column_names(text: str) -> tuple[str, ...]:
    """`id, "Ts"`: columns separated by commas, folded as Postgres folds them."""
    found = re.fullmatch(rf"{_SPACE}{_PART}{_SPACE}(?:,{_SPACE}{_PART}{_SPACE})*", text)
    if not found:
        raise UsageError(
            f"{text!r} is not a list of column names.", hint="Separate them by commas; quote names that need it."
        )
    return tuple(_unquote(part) for part in re.findall(_PART, text))


def _unquote(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part.translate(_FOLDED)


def joined_name(name: TableName) -> str:
    """One identifier for objects of this table in a schema of ours: `public__events`.

    Readable when that is unambiguous; with a digest of the exact name when it could collide with another table's or is
    too long.
    """
    plain = f"{name.schema}__{name.table}"
    ambiguous = "__" in name.schema or "__" in name.table or name.schema.endswith("_") or name.table.startswith("_")
    if not ambiguous and len(plain.encode()) <= MAX_JOINED_BYTES:
        return plain
    return suffixed(plain, hashlib.sha256(f"{name.schema}\x00{name.table}".encode()).hexdigest()[:10], MAX_JOINED_BYTES)


def suffixed(name: str, suffix: str, limit_bytes: int = MAX_IDENTIFIER_BYTES) -> str:
    """The name with `_suffix`, cut at a character boundary so that it fits an identifier."""
    room = limit_bytes - len(suffix.encode()) - 1
    return name.encode()[:room].decode(errors="ignore") + "_" + suffix
