"""Reads of the lake: DuckDB scans, their memory and spill files, and evaluation by Postgres."""
