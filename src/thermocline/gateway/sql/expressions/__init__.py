"""Compile the expressions of whole queries for DuckDB and for Postgres."""
