"""The service: cycles over the registered tables."""
