"""The Iceberg table: read, committed, listed, deleted."""
