"""Commits of an Iceberg table, each on exactly the metadata that was read."""
