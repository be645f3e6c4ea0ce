"""The formats there are: Iceberg, and those that installed packages offer under the entry point group
`thermocline.formats`."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from thermocline.core.policy.formats import GROUP, add_format
from thermocline.core.policy.iceberg_format import ICEBERG, format_named
from thermocline.maintain.format.formats import LakeFormat

_ADDED: dict[str, LakeFormat] = {}


@cache
def load_formats() -> None:
    """Load every installed format, once; an entry point names a class or function that returns the format."""
    for entry in entry_points(group=GROUP):
        made: LakeFormat = entry.load()()
        add_format(made.format)
        _ADDED[made.format.name] = made


def plugin_named(name: str) -> LakeFormat:
    """The format of that name; an unknown name is refused with a list of the known ones."""
    load_formats()
    if name == ICEBERG.name:
        return _iceberg()
    return _ADDED[format_named(name).name]


@cache
def _iceberg() -> LakeFormat:
    """Iceberg loads PyIceberg, Arrow and Spark's client, which who only views or sets a policy need not wait for."""
    from thermocline.maintain.format.iceberg_format import IcebergTables

    return IcebergTables()
