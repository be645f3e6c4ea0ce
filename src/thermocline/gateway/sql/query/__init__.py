"""Whole queries compiled for DuckDB."""
