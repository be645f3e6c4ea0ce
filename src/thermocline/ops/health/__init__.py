"""Observing a stack: every look has a time limit."""
