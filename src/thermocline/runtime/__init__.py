"""Settings, logging, connections, files and processes: nothing here knows of tiers."""

from __future__ import annotations

PREFIX = "THERMOCLINE_"
"""The prefix of our environment variables. Here, because every module of runtime may import it."""
