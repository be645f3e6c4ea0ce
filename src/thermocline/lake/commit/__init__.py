"""Commits of an Iceberg table, each on exactly the head that was read."""
