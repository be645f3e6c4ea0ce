"""Whether a stack does its work: what was observed, and the verdict on it."""
