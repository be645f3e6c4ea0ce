"""Whole queries: a person's own session, relayed to Postgres, with reads of spanning tables computed by DuckDB."""
