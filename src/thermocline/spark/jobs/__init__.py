"""Spark jobs: a sequence of tasks in, one result out. The driver plans, the executors move the bytes."""
