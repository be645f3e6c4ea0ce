"""Iceberg's own Spark actions, run on staged tables."""
