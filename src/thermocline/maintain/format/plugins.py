"""The formats there are: Iceberg, and those that installed packages offer under the entry point group
`thermocline.formats`."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from thermocline.core.policy.formats import GROUP, add_format
from thermocline.core.policy.iceberg_format import format_named
from thermocline.maintain.format.formats import LakeFormat
from thermocline.maintain.format.iceberg_format import IcebergTables

_ICEBERG = IcebergTables()
_ADDED: dict[str, LakeFormat] = {}


@cache
def load_formats() -> None:
    """Make every installed format known, once; an entry point names a class or function that makes the format."""
    for entry in entry_points(group=GROUP):
        made: LakeFormat = entry.load()()
        add_format(made.format)
        _ADDED[made.format.name] = made


def plugin_named(name: str) -> LakeFormat:
    """The format of that name, or a refusal that lists those there are."""
    load_formats()
    if name == _ICEBERG.format.name:
        return _ICEBERG
    return _ADDED[format_named(name).name]
