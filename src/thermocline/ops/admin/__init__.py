"""Administration: init, pins, pauses, profiles, grants, recovery."""
