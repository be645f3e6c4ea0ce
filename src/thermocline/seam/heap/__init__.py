"""The heap: the user's table in Postgres, its partitions, and rows that we move inside it."""
