"""Upkeep of Iceberg tables, the pure part: policy, bounds, plans, outcomes."""
