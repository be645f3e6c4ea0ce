"""What of a `postgres_fdw` query DuckDB may run."""
