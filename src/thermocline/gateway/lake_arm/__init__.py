"""The lake's rows for `postgres_fdw`."""
