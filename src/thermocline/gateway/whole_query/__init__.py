"""Whole queries run: tables resolved, one Postgres snapshot taken, heap and lake read."""
