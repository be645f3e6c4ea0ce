"""Benchmarks: each measures one figure beside its yardstick, in one run on one machine, and writes
bench/results/NAME.json."""
