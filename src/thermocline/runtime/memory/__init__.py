"""Memory that the program holds on to: caches with a bound."""
