"""The only way maintenance changes a table: one writer at a time, journaled, checked against the plan."""
