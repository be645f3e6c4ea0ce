"""Statements as Postgres reads them: analysed by Postgres, and printed in one canonical form."""
