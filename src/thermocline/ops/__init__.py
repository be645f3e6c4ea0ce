"""The verbs: each observes, plans, bounds, applies and records."""
