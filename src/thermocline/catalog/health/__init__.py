"""What the processes record of their work: heartbeats, cycles, corrections that wait."""
