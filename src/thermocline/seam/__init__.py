"""The user's table in Postgres: heap, delta, spill, view, capture."""
