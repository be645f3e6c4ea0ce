"""The lake as a Postgres server: `postgres_fdw` reads the cold arm of the seam through it."""
