"""Thermocline: one table across Postgres and Apache Iceberg."""

__version__ = "0.1.0"
