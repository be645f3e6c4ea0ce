"""The prefix of our environment variables."""

from __future__ import annotations

PREFIX = "THERMOCLINE_"
