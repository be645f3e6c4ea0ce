"""The text of statements: tokens, trees, allowed nodes, and the statements of `postgres_fdw`."""
