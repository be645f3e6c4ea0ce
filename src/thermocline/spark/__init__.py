"""Spark: the session, the kernels that run inside tasks, and the jobs that run them."""
