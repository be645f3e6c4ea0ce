"""Processes that run the native code of statements: one statement of one session can crash one of them."""
