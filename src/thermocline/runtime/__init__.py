"""Settings, logging, connections, files and processes: nothing here knows of tiers."""
