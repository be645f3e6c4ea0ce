"""Our schema in Postgres: migrations, named queries, one module per noun."""
