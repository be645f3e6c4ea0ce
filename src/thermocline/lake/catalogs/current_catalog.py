"""The Iceberg catalog in use. The only place that knows which kinds of catalog exist.

Every storage profile uses the JDBC catalog in the same Postgres. A second kind is chosen here, by the profile.
"""

from __future__ import annotations

from thermocline.lake.catalogs.base import LakeCatalog
from thermocline.lake.catalogs.jdbc import JdbcCatalog

_CATALOG = JdbcCatalog()


def lake_catalog() -> LakeCatalog:
    return _CATALOG
