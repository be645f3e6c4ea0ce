"""A person's session, relayed to Postgres."""
