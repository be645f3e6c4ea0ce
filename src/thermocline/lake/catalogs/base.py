"""What Thermocline needs of an Iceberg catalog, whatever its kind.

A catalog maps the name of a lake table to its current metadata file, the metadata pointer. Spark reads and commits
through the catalog by its own client (`spark_properties`). Our transactions read and change the pointer through the
methods that take a connection: a catalog in the same Postgres does so in the caller's transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from thermocline.core.names import TableName
from thermocline.runtime.pg import Connection, Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTable:
    """A table of some Iceberg catalog that this database can name; `is_ours` says whether the catalog is our own."""

    catalog: str
    name: TableName
    is_ours: bool
    store: str = ""
    """Distinguishes catalogs with one name."""

    def __str__(self) -> str:
        return str(self.name) if self.is_ours else f"{self.catalog}.{self.name}"


class LakeCatalog(Protocol):
    """One Iceberg catalog."""

    def spark_properties(self, endpoint: Endpoint, warehouse: str) -> dict[str, str]:
        """The properties of Spark's catalog, without the prefix `spark.sql.catalog.NAME`."""
        ...

    def renew_credentials(self) -> None:
        """Let Spark sessions that run already connect with certificates that were renewed since."""
        ...

    def insert_table(self, conn: Connection, name: TableName, metadata_location: str) -> None:
        """Add a table that has its first metadata file."""
        ...

    def delete_table(self, conn: Connection, name: TableName) -> None:
        """Remove a table's entry. Its files stay."""
        ...

    def read_metadata_location(self, conn: Connection, name: TableName) -> str | None:
        """The current metadata file of a table; None when the catalog has no such table."""
        ...

    def swap_metadata_location(self, conn: Connection, name: TableName, *, before: str, after: str) -> bool:
        """Compare and swap: point the table at `after` if it points at `before`. Whether it did."""
        ...

    def read_all_metadata_locations(self, conn: Connection) -> dict[CatalogTable, str]:
        """The current metadata file of every table that may share storage with ours, other catalogs' tables
        included."""
        ...
