"""A whole Thermocline on one machine: Postgres, gateway, worker and HTTP API as supervised child processes."""
