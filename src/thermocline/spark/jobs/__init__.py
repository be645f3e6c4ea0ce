"""Spark jobs: a sequence of tasks in, one result out; the driver plans and the executors move the bytes."""
