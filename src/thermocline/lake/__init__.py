"""The Iceberg table: its catalogs, and how it is read, committed, listed and deleted."""
