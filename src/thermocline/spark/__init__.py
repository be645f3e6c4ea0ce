"""Spark: the session, the exact commit of the lake, the kernels that move bytes inside tasks, and the jobs that run
them."""
