"""The user's table: its facts, partitions, spill, triggers, seam and foreign objects."""
