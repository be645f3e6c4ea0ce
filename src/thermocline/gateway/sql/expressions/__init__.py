"""Expressions of whole queries, compiled for DuckDB and for Postgres at once."""
