"""What the catalog keeps for maintenance."""
