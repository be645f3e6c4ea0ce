"""Client sessions: logins, the lake session of `postgres_fdw`, and sessions relayed to Postgres."""
